"""What is refused before any call, because a message could not carry it."""
from __future__ import annotations

import math
from typing import Any, Mapping, Optional

from google.protobuf.message import Message


def checked_text(name: str, text: str) -> str:
    """Refuses what is no text and what UTF-8 cannot carry."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is {type(text).__name__}; it takes a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds a lone surrogate (U+{ord(text[error.start]):04X}) "
                         f"at position {error.start}") from None
    return text


def checked_timeout(timeout: Optional[float]) -> Optional[float]:
    """None for one that never passes."""
    if timeout is None or timeout == math.inf:
        return None
    if not timeout > 0:
        raise ValueError(f"timeout must be above 0 seconds; is {timeout}")
    return timeout


def set_field(message: Message, name: str, value: Any) -> None:
    """Sets a field of any kind, a part by its fields too; None leaves it unset."""
    if value is None:
        return
    if not _is_repeated(message.DESCRIPTOR.fields_by_name[name]):
        if isinstance(value, (Message, Mapping)):
            part = getattr(message, name)
            part.CopyFrom(type(part)(**value) if isinstance(value, Mapping) else value)
        else:
            setattr(message, name, checked_text(name, value) if isinstance(value, str) else value)
    elif isinstance(value, Mapping):
        getattr(message, name).update(value)
    elif isinstance(value, str):
        raise TypeError(f"{name} is a string; it takes a list")
    else:
        getattr(message, name).extend(
            checked_text(f"{name}[{i}]", v) if isinstance(v, str) else v for i, v in enumerate(value))


def _is_repeated(field: Any) -> bool:
    # protobuf 6 has the former and warns of the latter.
    return bool(field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED)
