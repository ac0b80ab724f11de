"""What a stream yields: the server's messages under their own names."""
from __future__ import annotations

from typing import Any, Callable, Iterator, Union

import grpc

from headrace.v1 import activations_pb2, derived_pb2, generation_pb2

Header = generation_pb2.Header
Token = generation_pb2.Token
PromptLogprobs = generation_pb2.PromptLogprobs
ActivationChunk = activations_pb2.ActivationChunk
Derived = derived_pb2.Derived
ChoiceEnd = generation_pb2.ChoiceEnd
End = generation_pb2.End

Event = Union[Header, Token, PromptLogprobs, ActivationChunk, Derived, ChoiceEnd, End]


class EventStream(Iterator[Event]):
    """The events of a call that runs already. Closing it cancels the call, and
    so does dropping it, read or not."""

    def __init__(self, call: Any, to_exception: Callable[[grpc.RpcError], Exception]) -> None:
        self._call = call
        self._to_exception = to_exception
        self._closed = False

    def __next__(self) -> Event:
        if self._closed:
            raise StopIteration
        try:
            response = next(self._call)
        except grpc.RpcError as error:
            raise self._to_exception(error) from None
        return getattr(response, response.WhichOneof("event"))

    def close(self) -> None:
        self._closed = True
        self._call.cancel()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self._call.cancel()
