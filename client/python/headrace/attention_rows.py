"""Attention's scores and probabilities, put together by head."""
from __future__ import annotations

from typing import Dict, List, Tuple

import numpy as np

from headrace.arrays import Array, Integers
from headrace.cache import RowTable
from headrace.v1 import activations_pb2
from headrace.wire import Rows, copy_rows


class AttentionRows:
    """Rows of one hook and layer: [heads, rows, keys] by position of the key,
    as TransformerLens has them; with top_keys, by rank."""

    def __init__(self) -> None:
        self._heads: Dict[int, List[Tuple[activations_pb2.ActivationChunk, Array]]] = {}

    def add(self, rows: Rows) -> None:
        chunk = rows.chunk
        values = np.empty((chunk.row_count, chunk.width), np.float32)
        copy_rows(rows, values)
        self._heads.setdefault(chunk.head, []).append((chunk, values))

    @property
    def heads(self) -> List[int]:
        """Which head is array[i]."""
        return sorted(self._heads)

    @property
    def by_rank(self) -> bool:
        """With top_keys."""
        return any(chunk.key_positions for parts in self._heads.values() for chunk, _ in parts)

    def array(self) -> Array:
        chunks = [chunk for parts in self._heads.values() for chunk, _ in parts]
        empty = -np.inf if chunks[0].hook == activations_pb2.HOOK_POINT_ATTN_SCORES else 0
        keys = max(self._first(chunk, row) + chunk.key_counts[row]
                   for chunk in chunks for row in range(chunk.row_count))
        return np.stack([self._of_head(head, keys, empty) for head in self.heads])

    def key_positions(self) -> Integers:
        """With top_keys, [heads, rows, keys]: where each value's key is; -1: none."""
        rows = [[np.where(np.arange(chunk.width) < chunk.key_counts[row],
                          chunk.key_positions[row * chunk.width:(row + 1) * chunk.width], -1)
                 for chunk, _ in self._parts(head) for row in range(chunk.row_count)] for head in self.heads]
        return np.array(rows, np.int64)

    @staticmethod
    def _first(chunk: activations_pb2.ActivationChunk, row: int) -> int:
        return 0 if chunk.key_positions else chunk.key_starts[row]

    def rows(self) -> RowTable:
        return RowTable.of(chunk for chunk, _ in self._parts(self.heads[0]))

    def _parts(self, head: int) -> List[Tuple[activations_pb2.ActivationChunk, Array]]:
        # Rows of one choice come in order; how those of several are mixed is
        # another matter.
        return sorted(self._heads[head], key=lambda part: (part[0].phase, part[0].choice))

    def _of_head(self, head: int, keys: int, empty: float) -> Array:
        parts = self._parts(head)
        array = np.full((sum(chunk.row_count for chunk, _ in parts), keys), empty, np.float32)
        at = 0
        for chunk, values in parts:
            for row in range(chunk.row_count):
                first, count = self._first(chunk, row), chunk.key_counts[row]
                array[at, first:first + count] = values[row, :count]
                at += 1
        return array
