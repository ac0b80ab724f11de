"""Activations of one call, under TransformerLens's names."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple

import numpy as np

from headrace.errors import DataLossError
from headrace.hooks import IDENTITIES, HookNames
from headrace.v1 import activations_pb2

import grpc


class VerificationError(AssertionError):
    """A residual identity does not hold; the message names the first row."""


@dataclass
class RowTable:
    """One entry per row of every array: the prompt's, then those of each choice,
    in order of position."""

    position: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    token: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))
    phase: List[str] = field(default_factory=list)  # "prompt" or "generated"
    choice: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # 0 for the prompt

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

    def accumulated_resid(self, layer: Optional[int] = None, *, incl_mid: bool = False, apply_ln: bool = False,
                          return_labels: bool = False) -> Any:
        """The residual stream as it grows: [components, rows, hidden_size].

        As TransformerLens's: resid_pre of the layers before `layer` (and
        resid_mid after each with incl_mid), then resid_pre of `layer`, or
        resid_post of the last one when it is None. apply_ln divides by the
        captured scale of the final norm.
        """
        last = self._num_layers() if layer is None else layer
        names, labels = [], []
        for l in range(last):
            names.append(f"blocks.{l}.hook_resid_pre")
            labels.append(f"{l}_pre")
            if incl_mid:
                names.append(f"blocks.{l}.hook_resid_mid")
                labels.append(f"{l}_mid")
        names.append(f"blocks.{last - 1}.hook_resid_post" if layer is None else f"blocks.{last}.hook_resid_pre")
        labels.append("final_post" if layer is None else f"{last}_pre")
        return self._stack(names, labels, apply_ln, return_labels)

    def decompose_resid(self, layer: Optional[int] = None, *, mode: str = "all", apply_ln: bool = False,
                        return_labels: bool = False) -> Any:
        """What was written on the residual stream: [components, rows, hidden_size].

        As TransformerLens's: the embedding, then attn_out and mlp_out of the
        layers before `layer` (all when it is None). mode "attn" or "mlp" keeps
        those writes alone. With mode "all" the sum is the residual stream.
        """
        if mode not in ("all", "attn", "mlp"):
            raise ValueError(f"mode is {mode!r}; it is 'all', 'attn' or 'mlp'")
        names, labels = [], []
        if mode == "all":
            names += [name for name in ("hook_embed", "hook_pos_embed") if name == "hook_embed" or name in self]
            labels += ["embed", "pos_embed"][:len(names)]
        for l in range(self._num_layers() if layer is None else layer):
            for part in ("attn", "mlp"):
                if mode in ("all", part):
                    names.append(f"blocks.{l}.hook_{part}_out")
                    labels.append(f"{l}_{part}_out")
        return self._stack(names, labels, apply_ln, return_labels)

    def _num_layers(self) -> int:
        layers = [int(match[1]) for match in map(re.compile(r"blocks\.(\d+)\.").match, self._arrays) if match]
        if not layers:
            raise ValueError("no layer was captured")
        return max(layers) + 1

    def _stack(self, names: List[str], labels: List[str], apply_ln: bool, return_labels: bool) -> Any:
        stack = np.stack([self[name] for name in names])
        if apply_ln:
            stack = stack / self["ln_final.hook_scale"]
        return (stack, labels) if return_labels else stack

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
            # Rows of one choice come in order; how those of several are mixed
            # is another matter for each array.
            parts.sort(key=lambda part: (part[0].phase, part[0].choice))
            arrays[self._names.key(hook, layer)] = np.concatenate([values for _, values in parts])
            if not len(rows):
                rows = _rows_of([chunk for chunk, _ in parts])
        return ActivationCache(arrays, rows, checks)


def _rows_of(chunks: List[activations_pb2.ActivationChunk]) -> RowTable:
    return RowTable(
        position=np.array([p for chunk in chunks for p in chunk.positions], np.int64),
        token=np.array([t for chunk in chunks for t in chunk.token_ids], np.int64),
        phase=["prompt" if chunk.phase == activations_pb2.PHASE_PROMPT else "generated"
               for chunk in chunks for _ in chunk.positions],
        choice=np.array([chunk.choice for chunk in chunks for _ in chunk.positions], np.int64))


def _to_float32(chunk: activations_pb2.ActivationChunk) -> np.ndarray:
    """[row_count, width] float32; widening is exact."""
    shape = (chunk.row_count, chunk.width)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_F32:
        return np.frombuffer(chunk.data, "<f4").astype(np.float32).reshape(shape)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_BF16:
        bits = np.frombuffer(chunk.data, "<u2").astype(np.uint32) << 16
        return bits.view(np.float32).reshape(shape)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_F16:
        return np.frombuffer(chunk.data, "<f2").astype(np.float32).reshape(shape)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_INT8:
        values = np.frombuffer(chunk.data, np.int8).astype(np.float32).reshape(shape)
        values *= np.array(chunk.scales, np.float32)[:, None]
        values[list(chunk.outlier_rows), list(chunk.outlier_dimensions)] = chunk.outlier_values
        return values
    raise ValueError(f"this client does not read {activations_pb2.WireDtype.Name(chunk.dtype)}")
