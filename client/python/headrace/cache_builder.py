"""Puts the chunks of a stream together as they arrive."""
from __future__ import annotations

import functools
from typing import Any, Callable, Dict, FrozenSet, List, Optional, Tuple, Union

import grpc
import numpy as np

from headrace.arrays import Array, Integers
from headrace.attention_rows import AttentionRows
from headrace.cache import ActivationCache, RowTable
from headrace.errors import DataLossError
from headrace.events import ActivationChunk, Derived, End, Event, Header
from headrace.hooks import HookNames
from headrace.selection import dtype_name
from headrace.v1 import activations_pb2
from headrace.wire import Rows, copy_rows, native_dtype

# Rows that an array has room for at first, when as many are expected.
_FIRST_ROWS = 4096


class SequenceNumbers:
    """Chunks and derived rows are counted together, from 0, without a gap."""

    def __init__(self) -> None:
        self._next = 0

    def check(self, number: int) -> None:
        if number != self._next:
            raise DataLossError(f"chunk {number} came where {self._next} was due", grpc.StatusCode.DATA_LOSS)
        self._next += 1


class GrowingArray:
    """One array, in order of arrival, and what its rows are."""

    def __init__(self, capacity: int, width: int, dtype: "np.dtype[np.generic]") -> None:
        self._array = np.empty((max(1, capacity), width), dtype)
        self._filled = 0
        self._runs: List[Tuple[Tuple[int, int], slice]] = []  # (phase, choice) and where
        self._labels: List[ActivationChunk] = []

    def add(self, rows: Rows) -> None:
        chunk = rows.chunk
        end = self._filled + chunk.row_count
        if end > len(self._array):
            self._array.resize((max(end, 2 * len(self._array)), self._array.shape[1]), refcheck=False)
        copy_rows(rows, self._array[self._filled:end])
        self._runs.append(((chunk.phase, chunk.choice), slice(self._filled, end)))
        self._labels.append(chunk)
        self._filled = end

    def _order(self) -> List[int]:
        # Rows of one choice come in order; how those of several are mixed is
        # another matter for each array.
        return sorted(range(len(self._runs)), key=lambda i: self._runs[i][0])

    def finish(self) -> Array:
        order = self._order()
        if order == list(range(len(order))):
            self._array.resize((self._filled, self._array.shape[1]), refcheck=False)
            return self._array
        return np.concatenate([self._array[self._runs[i][1]] for i in order])

    def rows(self) -> RowTable:
        return RowTable.of(self._labels[i] for i in self._order())


class CacheBuilder:
    """Arrays have the size that the Header announces, and each byte is copied
    once, from the message to its place."""

    def __init__(self, names: HookNames, *, native: bool = False, steered: FrozenSet[str] = frozenset(),
                 attribute: Optional[Callable[..., Any]] = None) -> None:
        self._names = names
        self._native = native
        self._steered = steered
        self._attribute = attribute  # asks for the attribution of the same rows
        self._header = Header()
        self._rows_expected = 0  # per array
        self._sequence = SequenceNumbers()
        self._arrays: Dict[Tuple[int, int], GrowingArray] = {}
        self._attention: Dict[Tuple[int, int], AttentionRows] = {}
        self._end: Optional[End] = None

    def add(self, event: Union[Event, Rows]) -> None:
        if isinstance(event, Rows):
            self._add_rows(event)
        elif isinstance(event, Derived):
            self._sequence.check(event.sequence_number)
        elif isinstance(event, Header):
            self._header = event
            arrays = sum(max(1, len(hook.layers)) for hook in event.hooks)
            self._rows_expected = event.activation_rows_expected // max(1, arrays)
        elif isinstance(event, End):
            self._end = event

    def _add_rows(self, rows: Rows) -> None:
        chunk = rows.chunk
        self._sequence.check(chunk.sequence_number)
        key = (chunk.hook, chunk.layer if chunk.HasField("layer") else -1)
        if chunk.HasField("head"):
            self._attention.setdefault(key, AttentionRows()).add(rows)
            return
        if key not in self._arrays:
            dtype = native_dtype(chunk.dtype) if self._native else np.dtype(np.float32)
            self._arrays[key] = GrowingArray(min(self._rows_expected, _FIRST_ROWS), chunk.width, dtype)
        self._arrays[key].add(rows)

    def result(self) -> ActivationCache:
        rows, arrays = RowTable(), {}
        heads: Dict[str, List[int]] = {}
        key_positions: Dict[str, Integers] = {}
        for (hook, layer), array in sorted(self._arrays.items()):
            if not len(rows):
                rows = array.rows()
            values = array.finish()
            if len(values) != len(rows):
                raise DataLossError(f"{self._names.key(hook, layer)} has {len(values)} rows where others have "
                                    f"{len(rows)}", grpc.StatusCode.DATA_LOSS)
            arrays[self._names.key(hook, layer)] = values
        for (hook, layer), attention in sorted(self._attention.items()):
            if not len(rows):
                rows = attention.rows()
            name = self._names.key(hook, layer)
            arrays[name], heads[name] = attention.array(), attention.heads
            if attention.by_rank:
                key_positions[name] = attention.key_positions()
        checks = self._end.checks if self._end is not None and self._end.HasField("checks") else None
        # What was sampled is sampled again.
        again = self._attribute and functools.partial(self._attribute, seed=self._header.sampling.seed)
        return ActivationCache(arrays, rows, checks, num_layers=self._names.num_layers, steered=self._steered,
                               dtype=dtype_name(self._header.wire_dtype), attribute=again, heads=heads,
                               key_positions=key_positions)
