"""Activations of one call, under TransformerLens's names."""
from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterable, Iterator, List, Mapping, Optional, Sequence

import numpy as np

from headrace.arrays import Array, Integers
from headrace.hooks import IDENTITIES
from headrace.tensors import to_tensor
from headrace.v1 import activations_pb2


class VerificationError(AssertionError):
    """A residual identity does not hold; the message names the first row."""


@dataclass
class RowTable:
    """One entry per row of every array: the prompt's, then those of each choice,
    in order of position."""

    position: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    token: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    phase: List[str] = field(default_factory=list)  # "prompt" or "generated"
    choice: Integers = field(default_factory=lambda: np.empty(0, np.int64))  # 0 for the prompt

    def __len__(self) -> int:
        return len(self.position)

    @classmethod
    def of(cls, labels: Iterable[activations_pb2.ActivationChunk]) -> "RowTable":
        chunks = list(labels)
        return cls(
            position=np.concatenate([np.array(chunk.positions, np.int64) for chunk in chunks]),
            token=np.concatenate([np.array(chunk.token_ids, np.int64) for chunk in chunks]),
            phase=["prompt" if chunk.phase == activations_pb2.PHASE_PROMPT else "generated"
                   for chunk in chunks for _ in range(chunk.row_count)],
            choice=np.concatenate([np.full(chunk.row_count, chunk.choice, np.int64) for chunk in chunks]))


class ActivationCache(Mapping[str, Array]):
    """`cache["blocks.3.hook_resid_post"]` is [rows, hidden_size], float32;
    `cache["blocks.3.attn.hook_pattern"]` is [heads, rows, keys].

    Arrays own their memory and are writable. `rows` says which position and
    token each row is. `heads` says which heads an array of attention has, and
    `key_positions` [heads, rows, keys] which keys, when top_keys were asked for;
    -1: none. `checks` is what the server verified by itself, None when it was
    not asked to.
    """

    def __init__(self, arrays: Dict[str, Array], rows: RowTable, checks: object = None, *, num_layers: int,
                 steered: FrozenSet[str] = frozenset(), dtype: str = "f32",
                 attribute: Optional[Callable[..., Any]] = None, heads: Optional[Dict[str, List[int]]] = None,
                 key_positions: Optional[Dict[str, Integers]] = None) -> None:
        self._arrays = arrays
        self.rows = rows
        self.checks = checks
        self.dtype = dtype  # what travelled
        self._num_layers = num_layers  # of the model
        self._steered = steered
        self.heads = heads or {}
        self.key_positions = key_positions or {}
        self._attribute = attribute

    def __getitem__(self, name: str) -> Array:
        try:
            return self._arrays[name]
        except KeyError:
            raise KeyError(f"{name!r} was not captured; here: {', '.join(self._arrays)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def to_torch(self, device: Any = None) -> Dict[str, Any]:
        """The same arrays as torch tensors, by name.

        On the CPU a tensor shares its array's memory. bfloat16 stays bfloat16.
        """
        return {name: to_tensor(array, device) for name, array in self._arrays.items()}

    def verify(self) -> int:
        """Repeats the residual identities here, exactly, in float32.

        A sum that an intervention changed is left to the server, which checks
        it before. Returns how many rows times layers were checked; raises
        VerificationError at the first that fails, ValueError when the arrays
        that an identity needs were not captured, or not in f32.
        """
        if self.dtype != "f32":
            raise ValueError(f"the rows travelled as {self.dtype}: the identities hold in f32")
        checked = 0
        for name in self._arrays:
            match = re.fullmatch(r"(blocks\.\d+\.)(hook_resid_(?:mid|post))", name)
            if match is None:
                continue
            for before, write, after in IDENTITIES:
                parts = [match.group(1) + part for part in (before, write, after)]
                if after != match.group(2) or name in self._steered or any(part not in self._arrays for part in parts):
                    continue
                checked += self._verify_one(*parts)
        if checked == 0:
            raise ValueError("nothing to verify: capture resid_pre, attn_out and resid_mid, or resid_mid, "
                             "mlp_out and resid_post, of layers where no intervention changes the sum")
        return checked

    def accumulated_resid(self, layer: Optional[int] = None, *, incl_mid: bool = False, apply_ln: bool = False,
                          return_labels: bool = False) -> Any:
        """The residual stream as it grows: [components, rows, hidden_size].

        As TransformerLens's: resid_pre of the layers before `layer` (and
        resid_mid after each with incl_mid), then resid_pre of `layer`, or
        resid_post of the last one when it is None. With apply_ln each is divided
        by its own root mean square, as the logit lens does; the norm's gain is
        not applied. That takes attn_norm_scale, mlp_norm_scale with incl_mid,
        and final_norm_scale when `layer` is None.
        """
        last = self._num_layers if layer is None else layer
        names, scales, labels = [], [], []
        for l in range(last):
            names.append(f"blocks.{l}.hook_resid_pre")
            scales.append(f"blocks.{l}.ln1.hook_scale")
            labels.append(f"{l}_pre")
            if incl_mid:
                names.append(f"blocks.{l}.hook_resid_mid")
                scales.append(f"blocks.{l}.ln2.hook_scale")
                labels.append(f"{l}_mid")
        names.append(self._resid_before(layer))
        scales.append(self._scale_before(layer))
        labels.append("final_post" if layer is None else f"{last}_pre")
        stack = np.stack([self[name] for name in names])
        if apply_ln:
            stack = stack / np.stack([self[name] for name in scales])
        return (stack, labels) if return_labels else stack

    def decompose_resid(self, layer: Optional[int] = None, *, mode: str = "all", apply_ln: bool = False,
                        return_labels: bool = False) -> Any:
        """What was written on the residual stream: [components, rows, hidden_size].

        As TransformerLens's: the embedding, then attn_out and mlp_out of the
        layers before `layer` (all when it is None). mode "attn" or "mlp" keeps
        those writes alone. With mode "all" the sum is the residual stream; where
        interventions changed it between the writes, "interventions" is what they
        added.
        apply_ln divides by what the norm that reads this sum divides by:
        attn_norm_scale of `layer`, or final_norm_scale.
        """
        if mode not in ("all", "attn", "mlp"):
            raise ValueError(f"mode is {mode!r}; it is 'all', 'attn' or 'mlp'")
        names, labels = [], []
        if mode == "all":
            names += [name for name in ("hook_embed", "hook_pos_embed") if name == "hook_embed" or name in self]
            labels += ["embed", "pos_embed"][:len(names)]
        for l in range(self._num_layers if layer is None else layer):
            for part in ("attn", "mlp"):
                if mode in ("all", part):
                    names.append(f"blocks.{l}.hook_{part}_out")
                    labels.append(f"{l}_{part}_out")
        stack = np.stack([self[name] for name in names])
        if mode == "all" and self._steered:
            rest = self[self._resid_before(layer)] - stack.astype(np.float64).sum(0)
            stack = np.concatenate([stack, rest[None].astype(stack.dtype)])
            labels.append("interventions")
        if apply_ln:
            stack = stack / self[self._scale_before(layer)]
        return (stack, labels) if return_labels else stack

    def logit_attrs(self, tokens: Sequence[int], *, contrast: Sequence[int] = (), by_head: bool = False) -> Any:
        """Client.logit_attrs() of these rows, computed next to the weights: to be
        awaited when headrace.aio made the cache."""
        if self._attribute is None:
            raise ValueError("only a cache of run_with_cache() can ask the server")
        return self._attribute(tokens, contrast=contrast, by_head=by_head)

    def _resid_before(self, layer: Optional[int]) -> str:
        """resid_pre of `layer`, or the end of the stream."""
        return f"blocks.{self._num_layers - 1}.hook_resid_post" if layer is None else f"blocks.{layer}.hook_resid_pre"

    @staticmethod
    def _scale_before(layer: Optional[int]) -> str:
        """Of the norm that reads resid_pre of `layer`, or the end of the stream."""
        return "ln_final.hook_scale" if layer is None else f"blocks.{layer}.ln1.hook_scale"

    def _verify_one(self, before: str, write: str, after: str) -> int:
        total = self[before] + self[write]
        wrong = np.argwhere(total != self[after])
        if len(wrong):
            row, dimension = wrong[0]
            raise VerificationError(f"{before} + {write} != {after} at position {self.rows.position[row]}, "
                                    f"dimension {dimension}: {total[row, dimension]!r} != {self[after][row, dimension]!r}")
        return len(total)
