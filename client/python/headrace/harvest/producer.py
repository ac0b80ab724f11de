"""The thread that fills blocks ahead of who reads them."""
from __future__ import annotations

import itertools
import queue
import threading
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Deque, Iterable, Iterator, Optional, Sequence, Set, Tuple, Union

import numpy as np

from headrace.event_stream import EventStream
from headrace.harvest.blocks import Block
from headrace.harvest.rows import PromptRows, RowReader
from headrace.harvest.state import HarvestState, digest

# What comes out: a block; what went wrong; None at the end.
Produced = Union[Block, BaseException, None]
Pending = Tuple[int, Any, "Future[PromptRows]"]


class Producer:
    """Runs `in_flight` prompts at once and puts their rows into blocks in the
    prompts' order, whichever is done first. There are as many blocks as it was
    made with: when all are full, nothing is asked of the server."""

    def __init__(self, reader: RowReader, start: HarvestState, in_flight: int, blocks: int, block_rows: int) -> None:
        self._reader = reader
        self._start = start
        self._in_flight = in_flight
        self._free: "queue.Queue[Optional[Block]]" = queue.Queue()
        self._ready: "queue.Queue[Produced]" = queue.Queue()
        self._closing = threading.Event()
        self._lock = threading.Lock()
        self._streams: Set[EventStream] = set()
        for _ in range(blocks):
            self._free.put(Block(reader.empty(block_rows), np.empty(block_rows, np.int64)))

    def run(self, prompts: Iterable[Any]) -> None:
        """The thread: ends when the prompts do, at the first error, or when closed."""
        end: Produced = None
        pool = ThreadPoolExecutor(self._in_flight, "headrace-harvest")
        try:
            self._fill(self._results(pool, _skip(prompts, self._start.prompt)))
        except BaseException as error:  # pylint: disable=broad-except  (raised again where batches are read)
            end = error
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            self._ready.put(end)

    def get(self) -> Produced:
        return self._ready.get()

    def give_back(self, block: Block) -> None:
        block.filled = 0
        self._free.put(block)

    def close(self) -> None:
        """Cancels the calls that run."""
        self._closing.set()
        self._free.put(None)
        with self._lock:
            for stream in self._streams:
                stream.close()

    def _results(self, pool: ThreadPoolExecutor, prompts: Iterator[Any]) -> Iterator[Tuple[int, Any, PromptRows]]:
        """(index, prompt, rows) in the prompts' order."""
        pending: Deque[Pending] = deque()
        numbered = enumerate(prompts, self._start.prompt)
        while not self._closing.is_set():
            for index, prompt in itertools.islice(numbered, self._in_flight - len(pending)):
                pending.append((index, prompt, pool.submit(self._read, index, prompt)))
            if not pending:
                return
            index, prompt, future = pending.popleft()
            yield index, prompt, future.result()

    def _read(self, index: int, prompt: Any) -> PromptRows:
        opened: Set[EventStream] = set()

        def register(stream: EventStream) -> None:
            opened.add(stream)
            with self._lock:
                self._streams.add(stream)
            if self._closing.is_set():
                stream.close()

        try:
            return self._reader.read(prompt, register)
        except Exception as error:
            error.add_note(f"prompt {index} of the harvest") if hasattr(error, "add_note") else None
            raise
        finally:
            with self._lock:
                self._streams -= opened

    def _fill(self, results: Iterator[Tuple[int, Any, PromptRows]]) -> None:
        state, block, skip = self._start, self._free.get(), self._start.row
        for index, prompt, rows in results:
            if index == self._start.prompt:
                self._start.check_prompt(prompt)
            taken, skip = skip, 0
            while taken < len(rows):
                if block is None:  # closed
                    return
                if block.filled == 0:
                    state = replace(state, prompt=index, row=taken, digest=digest(prompt))
                    block.start = state
                taken += block.take(rows, taken, index)
                if block.filled == block.capacity:
                    state = self._hand_over(block, state, index, taken)
                    block = self._free.get()
        if block is not None and block.filled and not self._closing.is_set():
            self._hand_over(block, state, index + 1, 0)

    def _hand_over(self, block: Block, state: HarvestState, prompt: int, row: int) -> HarvestState:
        after = replace(state, block=state.block + 1, prompt=prompt, row=row, batches=0, digest=None)
        block.next_start = after
        self._ready.put(block)
        return after


def _skip(prompts: Iterable[Any], count: int) -> Iterator[Any]:
    """At once in a sequence, by reading on elsewhere."""
    if isinstance(prompts, Sequence):
        return (prompts[i] for i in range(count, len(prompts)))
    return itertools.islice(prompts, count, None)
