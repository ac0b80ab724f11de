"""What a stream yields: the server's messages under their own names."""
from __future__ import annotations

from typing import Any, Protocol, TypeVar, Union

from headrace.v1 import activations_pb2, derived_pb2, generation_pb2
from headrace.wire import Rows

Header = generation_pb2.Header
Token = generation_pb2.Token
PromptLogprobs = generation_pb2.PromptLogprobs
ActivationChunk = activations_pb2.ActivationChunk
Derived = derived_pb2.Derived
ChoiceEnd = generation_pb2.ChoiceEnd
End = generation_pb2.End

Event = Union[Header, Token, PromptLogprobs, ActivationChunk, Derived, ChoiceEnd, End]

T_co = TypeVar("T_co", covariant=True)


class Builder(Protocol[T_co]):
    """Makes one thing of a whole stream."""

    def add(self, event: Union[Event, Rows]) -> None: ...

    def result(self) -> T_co: ...


def event_of(response: Any) -> Any:
    """An Event; Rows where the method gives those."""
    if isinstance(response, Rows):
        return response
    return getattr(response, response.WhichOneof("event"))
