"""The events of a call that runs, for Client."""
from __future__ import annotations

import threading
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

import grpc

from headrace.connection import Stubs
from headrace.events import Event, event_of
from headrace.stream_position import Request, StreamPosition

# Starts the call with a request and a timeout.
Start = Callable[[Request, Optional[float]], Tuple[Any, Stubs]]


class EventStream(Iterator[Event]):
    """The events of a call that runs already. Closing it cancels the call, and
    so does dropping it, read or not. A call that fails is made again as the
    client's RetryPolicy says, and goes on where it broke."""

    def __init__(self, start: Start, position: StreamPosition) -> None:
        self._start = start
        self._position = position
        self._closed = threading.Event()
        self._call, self._stubs = start(*position.begin())

    @property
    def continuation(self) -> Dict[str, Any]:
        """Options with which the same call, made again by anybody, goes on after
        the last event that was taken here: `resume`, and generate()'s `seed`."""
        return self._position.continuation

    def __next__(self) -> Event:
        while not self._closed.is_set():
            try:
                response = next(self._call)
            except grpc.RpcError as error:
                failure = self._stubs.error(error)
            else:
                event: Optional[Event] = self._position.take(event_of(response))
                if event is not None:
                    return event
                continue
            if not self._closed.wait(self._position.pause(failure)):
                self._call, self._stubs = self._start(*self._position.begin())
        raise StopIteration

    def close(self) -> None:
        self._closed.set()
        self._call.cancel()

    def __enter__(self) -> "EventStream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_call"):  # it was started
            self._call.cancel()


class RowStream(EventStream):
    """For who reads a stream to its end by himself, in one thread, in a with
    statement: on a channel without a thread that hands messages over, which is
    half the work per byte. What is left of a cancelled call is read too: an
    older gRPC cannot fork before that."""

    def __exit__(self, *_: object) -> None:
        self.close()
        try:
            for _ in self._call:
                pass
        except grpc.RpcError:
            pass
