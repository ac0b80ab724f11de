"""The channel of a client, and what becomes of it when the process forks."""
from __future__ import annotations

import glob
import os
import threading
import time
import weakref
from typing import Any, Callable, Dict, Optional, Tuple, TypeVar

import grpc

from headrace import errors
from headrace.fork_support import FORK_HANGS_WITH_CHANNELS
from headrace.methods import Method

T = TypeVar("T")

# Held while a call starts, a channel is closed and the process forks.
_forking = threading.Lock()
_connections: "weakref.WeakSet[Connection]" = weakref.WeakSet()


class Stubs:
    """The methods of a server. Those that read rows have a channel of their own
    (Target.open_channel), where there is one."""

    def __init__(self, channel: Any, rows_channel: Any = None) -> None:
        self.channel = channel
        self.rows_channel = rows_channel
        self.forked = False  # closed by a fork
        self._methods: Dict[Method[Any, Any], Any] = {}

    def __getitem__(self, method: Method[Any, Any]) -> Any:
        if method not in self._methods:
            own = self.rows_channel is not None and method.read is not None
            self._methods[method] = method.on(self.rows_channel if own else self.channel)
        return self._methods[method]

    def error(self, error: grpc.RpcError) -> errors.HeadraceError:
        """The exception of a call that failed on this channel."""
        if self.forked and error.code() == grpc.StatusCode.CANCELLED:
            return errors.StoppedError("CANCELLED: the process forked while the call ran", error.code())
        return errors.from_rpc_error(error)


class Connection:
    """Opens its channel when a call needs it. Thread-safe.

    After a fork, the child opens a channel of its own: gRPC's threads stay with
    the parent. Where gRPC cannot fork with a channel open, every channel is
    closed just before, which ends the calls that run.
    """

    def __init__(self, open_channel: Callable[..., grpc.Channel]) -> None:
        self._open_channel = open_channel
        self._stubs: Optional[Stubs] = None
        self._closed = False
        with _forking:
            _connections.add(self)

    def start(self, call: Callable[[Stubs], T]) -> Tuple[T, Stubs]:
        """Starts a call, without waiting for it: never across a fork."""
        with _forking:
            if self._closed:
                raise ValueError("the client is closed")
            if self._stubs is None:
                self._stubs = Stubs(self._open_channel(), self._open_channel(one_reader=True))
            return call(self._stubs), self._stubs

    def close(self) -> None:
        with _forking:
            self._closed = True
            self._disconnect()

    def _disconnect(self) -> None:
        if self._stubs is not None:
            for channel in (self._stubs.channel, self._stubs.rows_channel):
                channel.close()  # returns when its calls have ended
            self._stubs = None


def _before_fork() -> None:
    _forking.acquire()
    if FORK_HANGS_WITH_CHANNELS:
        for connection in list(_connections):
            if connection._stubs is not None:
                connection._stubs.forked = True
                connection._disconnect()
        _wait_for_event_engine()


def _wait_for_event_engine() -> None:
    """Until gRPC's thread has gone that fork() would wait for, at most 2 s: other
    threads may have to let go of their calls first, and cannot during fork()."""
    end = time.monotonic() + 2
    while any(_name(thread) == "event_engine" for thread in glob.glob("/proc/self/task/*")):
        if time.monotonic() > end:
            break
        time.sleep(0.001)


def _name(thread: str) -> str:
    try:
        with open(thread + "/comm", encoding="utf-8") as file:
            return file.read().rstrip()
    except OSError:
        return ""  # it has ended


def _after_fork_in_child() -> None:
    for connection in list(_connections):
        connection._stubs = None
    _forking.release()


os.register_at_fork(before=_before_fork, after_in_parent=_forking.release, after_in_child=_after_fork_in_child)
