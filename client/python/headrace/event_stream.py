"""The events of a call that runs, for Client."""
from __future__ import annotations

import threading
from typing import Any, Callable, Iterator, Optional, Tuple

import grpc

from headrace.connection import Stubs
from headrace.events import Event, event_of
from headrace.retry import Attempts

# Starts the call with a timeout.
Start = Callable[[Optional[float]], Tuple[Any, Stubs]]


class EventStream(Iterator[Event]):
    """The events of a call that runs already. Closing it cancels the call, and
    so does dropping it, read or not. Until the first event is there, a call
    that fails is made again as the client's RetryPolicy says."""

    def __init__(self, start: Start, attempts: Attempts) -> None:
        self._start = start
        self._attempts = attempts
        self._closed = threading.Event()
        self._delivered = False
        self._call, self._stubs = start(attempts.begin())

    def __next__(self) -> Event:
        while not self._closed.is_set():
            try:
                response = next(self._call)
            except grpc.RpcError as error:
                failure = self._stubs.error(error)
            else:
                self._delivered = True
                event: Event = event_of(response)
                return event
            if self._delivered:
                raise failure
            if not self._closed.wait(self._attempts.pause(failure)):
                self._call, self._stubs = self._start(self._attempts.begin())
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
