"""The text of a stream's first choice."""
from __future__ import annotations

from typing import List, Union

from headrace.events import ChoiceEnd, Event, Token
from headrace.wire import Rows


class TextBuilder:
    def __init__(self) -> None:
        self._parts: List[str] = []

    def add(self, event: Union[Event, Rows]) -> None:
        if isinstance(event, (Token, ChoiceEnd)) and event.choice == 0:
            self._parts.append(event.text)

    def result(self) -> str:
        return "".join(self._parts)
