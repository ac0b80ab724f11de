"""When a call that failed is made again, and after how long."""
from __future__ import annotations

import random
import time
from dataclasses import dataclass
from typing import Optional

from headrace.errors import HeadraceError, ResourceExhaustedError, StoppedError, UnavailableError

import grpc


@dataclass(frozen=True)
class RetryPolicy:
    """A call is made again when the server cannot be reached, drains or is full.
    A stream goes on where it broke, unless it depends on the clock (a
    time_limit, rows that may be left out): that ends with the error.

    The pause is what the server says, else `initial_delay`, doubled each time
    and varied by a fifth. A server that is full and gives no delay has refused
    the request for what it is: that is no reason to ask again. Attempts of a
    stream are counted from the last event that came. The client's timeout
    bounds all of them together.
    """

    max_attempts: int = 5
    initial_delay: float = 0.2  # seconds
    max_delay: float = 60.0  # seconds; a server that wants more is not waited for

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"max_attempts must be at least 1; is {self.max_attempts}")
        if not (self.initial_delay > 0 and self.max_delay > 0):
            raise ValueError("initial_delay and max_delay must be above 0 seconds")


class Attempts:
    """Those of one call."""

    def __init__(self, policy: RetryPolicy, timeout: Optional[float]) -> None:
        self._policy = policy
        self._end = None if timeout is None else time.monotonic() + timeout
        self._made = 0

    def begin(self) -> Optional[float]:
        """The timeout of the attempt that begins now."""
        self._made += 1
        if self._end is None:
            return None
        left = self._end - time.monotonic()
        if left <= 0:
            raise StoppedError("DEADLINE_EXCEEDED: the timeout passed between two attempts",
                               grpc.StatusCode.DEADLINE_EXCEEDED)
        return left

    def progressed(self) -> None:
        """Something new came: what failed before is no reason to give up."""
        self._made = 1

    def pause(self, error: HeadraceError) -> float:
        """Seconds until the next attempt; raises the error when there is none."""
        delay = error.retry_delay
        if delay is None and isinstance(error, UnavailableError):
            delay = self._policy.initial_delay * 2 ** (self._made - 1) * random.uniform(0.8, 1.2)
        again = isinstance(error, (UnavailableError, ResourceExhaustedError)) and delay is not None
        if not again or delay is None or self._made >= self._policy.max_attempts or delay > self._policy.max_delay:
            raise error
        if self._end is not None and time.monotonic() + delay >= self._end:
            raise error
        return max(0.0, delay)
