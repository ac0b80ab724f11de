"""Activations of one call, under TransformerLens's names."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Dict, Iterator, List, Mapping, Tuple

import numpy as np

from headrace.errors import DataLossError
from headrace.hooks import IDENTITIES, HookNames
from headrace.v1 import activations_pb2

import grpc


class VerificationError(AssertionError):
    """A residual identity does not hold; the message names the first row."""


@dataclass
class RowTable:
    """One entry per row of every array, in order of position."""

    position: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    token: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    phase: List[str] = field(default_factory=list)  # "prompt" or "generated"

    def __len__(self) -> int:
        return len(self.position)


class ActivationCache(Mapping[str, np.ndarray]):
    """`cache["blocks.3.hook_resid_post"]` is [rows, hidden_size], float32.

    Arrays own their memory and are writable. `rows` says which position and
    token each row is. `checks` is what the server verified by itself, None when
    it was not asked to.
    """

    def __init__(self, arrays: Dict[str, np.ndarray], rows: RowTable, checks: object = None) -> None:
        self._arrays = arrays
        self.rows = rows
        self.checks = checks

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            return self._arrays[name]
        except KeyError:
            raise KeyError(f"{name!r} was not captured; here: {', '.join(self._arrays)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def verify(self) -> int:
        """Repeats the residual identities here, exactly, in float32.

        Returns how many rows times layers were checked; raises
        VerificationError at the first that fails, ValueError when the arrays
        that an identity needs were not captured.
        """
        checked = 0
        for name in self._arrays:
            match = re.fullmatch(r"(blocks\.\d+\.)(hook_resid_(?:mid|post))", name)
            if match is None:
                continue
            for before, write, after in IDENTITIES:
                parts = [match.group(1) + part for part in (before, write, after)]
                if after != match.group(2) or any(part not in self._arrays for part in parts):
                    continue
                checked += self._verify_one(*parts)
        if checked == 0:
            raise ValueError("nothing to verify: capture resid_pre, attn_out and resid_mid, or resid_mid, "
                             "mlp_out and resid_post, in f32")
        return checked

    def _verify_one(self, before: str, write: str, after: str) -> int:
        total = self[before] + self[write]
        wrong = np.argwhere(total != self[after])
        if len(wrong):
            row, dimension = wrong[0]
            raise VerificationError(f"{before} + {write} != {after} at position {self.rows.position[row]}, "
                                    f"dimension {dimension}: {total[row, dimension]!r} != {self[after][row, dimension]!r}")
        return len(total)


class CacheBuilder:
    """Puts chunks together as they arrive."""

    def __init__(self, names: HookNames) -> None:
        self._names = names
        self._next = 0
        self._parts: Dict[Tuple[int, int], List[Tuple[activations_pb2.ActivationChunk, np.ndarray]]] = {}

    def add(self, chunk: activations_pb2.ActivationChunk) -> None:
        if chunk.sequence_number != self._next:
            raise DataLossError(f"chunk {chunk.sequence_number} came where {self._next} was due",
                                grpc.StatusCode.DATA_LOSS)
        self._next += 1
        layer = chunk.layer if chunk.HasField("layer") else -1
        # Positions stay in the message; the bytes are copied out of it once, in build().
        self._parts.setdefault((chunk.hook, layer), []).append((chunk, _to_float32(chunk)))

    def build(self, checks: object = None) -> ActivationCache:
        arrays: Dict[str, np.ndarray] = {}
        rows = RowTable()
        for (hook, layer), parts in sorted(self._parts.items()):
            arrays[self._names.key(hook, layer)] = np.concatenate([values for _, values in parts])
            if not len(rows):
                rows = RowTable(
                    position=np.array([p for chunk, _ in parts for p in chunk.positions], np.int64),
                    token=np.array([t for chunk, _ in parts for t in chunk.token_ids], np.int64),
                    phase=["prompt" if chunk.phase == activations_pb2.PHASE_PROMPT else "generated"
                           for chunk, _ in parts for _ in chunk.positions])
        return ActivationCache(arrays, rows, checks)


def _to_float32(chunk: activations_pb2.ActivationChunk) -> np.ndarray:
    """[row_count, width] float32; BF16 is widened exactly."""
    shape = (chunk.row_count, chunk.width)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_F32:
        return np.frombuffer(chunk.data, "<f4").astype(np.float32).reshape(shape)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_BF16:
        bits = np.frombuffer(chunk.data, "<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    raise ValueError(f"this client does not read {activations_pb2.WireDtype.Name(chunk.dtype)}")
