"""What the engine derives from rows, computed next to the weights.

    client.derive("Once upon", [norm("resid_post"), projection("resid_post", [direction], layers=[12])])

Functions give what Client.derive() and capture(…, derived=…) take. A vector is
an array, or the name that Client.put_vector() gave it.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple, Union

import numpy as np

from headrace.arrays import Array, Integers
from headrace.events import Derived, Event
from headrace.interventions import to_vector
from headrace.selection import Layers
from headrace.selection import hook as select_hook
from headrace.v1 import derived_pb2
from headrace.wire import Rows


@dataclass
class LogitLens:
    """What each layer would predict, with the final norm's statistics taken
    from the row itself."""

    layers: List[int]
    positions: Integers  # [rows]
    ids: Integers  # [layers, rows, top_k], likeliest first
    pieces: List[List[List[bytes]]]  # the same tokens' bytes
    logprobs: Array  # [layers, rows, top_k]
    token_logprobs: Array  # [layers, rows, tokens], of the tokens asked for
    token_ranks: Integers  # [layers, rows, tokens], 1 is the likeliest


@dataclass
class Attribution:
    """A logit as a sum: labels[i] wrote values[..., i] of it."""

    labels: List[str]
    positions: Integers  # [rows]
    values: Array  # [rows, tokens, parts]
    residue: Array  # [rows, tokens]: what rounding and interventions on the bus made
    logits: Array  # [rows, tokens]


@dataclass
class Quantity:
    """Values of one DerivedSpec; their widths are as derived.proto says."""

    layers: List[int]  # [-1] when it has none
    positions: Integers  # [rows]
    values: Array  # [layers, rows, width]


class DerivedRows:
    """The rows of one quantity: (layer, position) -> values, ids, pieces."""

    def __init__(self) -> None:
        self._rows: Dict[Tuple[int, int], Tuple[Array, Array, List[bytes]]] = {}

    def add(self, event: Union[Event, Rows]) -> None:
        if not isinstance(event, Derived):
            return
        if event.choice:
            raise ValueError("rows of several choices have the same positions: ask for n=1")
        layer = event.layer if event.HasField("layer") else -1
        values = np.frombuffer(event.values, "<f4").astype(np.float32).reshape(event.row_count, event.width)
        ids = np.array(event.ids, np.int64).reshape(event.row_count, -1)
        per_row = len(event.pieces) // max(1, event.row_count)
        for i, position in enumerate(event.positions):
            self._rows[layer, position] = (values[i], ids[i], list(event.pieces[i * per_row:(i + 1) * per_row]))


    def _axes(self) -> Tuple[List[int], List[int]]:
        """Layers and positions."""
        return sorted({layer for layer, _ in self._rows}), sorted({position for _, position in self._rows})

    def quantity(self) -> Quantity:
        layers, positions = self._axes()
        values = np.array([[self._rows[layer, p][0] for p in positions] for layer in layers], np.float32)
        return Quantity(layers, np.array(positions, np.int64), values)


class QuantityBuilder:
    def __init__(self, count: int) -> None:
        self._specs = [DerivedRows() for _ in range(count)]

    def add(self, event: Union[Event, Rows]) -> None:
        if isinstance(event, Derived):
            self._specs[event.spec].add(event)

    def result(self) -> List[Quantity]:
        return [rows.quantity() for rows in self._specs]


class LensBuilder(DerivedRows):
    def __init__(self, top_k: int) -> None:
        super().__init__()
        self._top_k = top_k

    def result(self) -> LogitLens:
        layers, positions = self._axes()
        rows = [[self._rows[layer, p] for p in positions] for layer in layers]
        values = np.array([[row[0] for row in of_layer] for of_layer in rows])
        return LogitLens(
            layers=layers, positions=np.array(positions, np.int64),
            ids=np.array([[row[1] for row in of_layer] for of_layer in rows]),
            pieces=[[row[2] for row in of_layer] for of_layer in rows],
            logprobs=values[..., :self._top_k], token_logprobs=values[..., self._top_k::2],
            token_ranks=values[..., self._top_k + 1::2].astype(np.int64))


class AttributionBuilder(DerivedRows):
    def __init__(self, tokens: int, layers: int, heads: int) -> None:
        """`heads` 0: attention as a whole."""
        super().__init__()
        self._tokens = tokens
        self._labels = ["embed"]
        for layer in range(layers):
            self._labels += [f"L{layer}H{head}" for head in range(heads)] if heads else [f"{layer}_attn_out"]
            self._labels.append(f"{layer}_mlp_out")

    def result(self) -> Attribution:
        found = self.quantity()
        values = found.values[0].reshape(len(found.positions), self._tokens, len(self._labels) + 2)
        return Attribution(labels=self._labels, positions=found.positions, values=values[..., :-2],
                           residue=values[..., -2], logits=values[..., -1])


def logit_lens(hook: str = "resid_post", *, layers: Layers = "all", top_k: int = 5, tokens: Sequence[int] = (),
               final_scale: bool = False) -> derived_pb2.DerivedSpec:
    """What each layer would predict. With `final_scale`, the last layer's
    statistics divide every row, so that lenses of the parts of a sum add up."""
    norm = derived_pb2.LENS_NORM_FINAL_SCALE if final_scale else derived_pb2.LENS_NORM_RECOMPUTE
    return derived_pb2.DerivedSpec(logit_lens=derived_pb2.LogitLens(
        where=select_hook(hook, layers=layers), top_k=top_k, token_ids=tokens, norm=norm))


def logit_attribution(tokens: Sequence[int], *, contrast: Sequence[int] = (),
                      by_head: bool = False) -> derived_pb2.DerivedSpec:
    """What each writer adds to the tokens' logits, less those of `contrast`."""
    return derived_pb2.DerivedSpec(direct_logit_attribution=derived_pb2.LogitAttribution(
        token_ids=tokens, contrast_ids=contrast, by_head=by_head))


def projection(hook: str, vectors: Sequence[Any], *, layers: Layers = "all") -> derived_pb2.DerivedSpec:
    """row . v for each vector"""
    return derived_pb2.DerivedSpec(projection=derived_pb2.Projection(
        where=select_hook(hook, layers=layers), vectors=[to_vector(vector) for vector in vectors]))


def norm(hook: str, *, layers: Layers = "all") -> derived_pb2.DerivedSpec:
    """The row's L2 norm"""
    return derived_pb2.DerivedSpec(norm=derived_pb2.RowNorm(where=select_hook(hook, layers=layers)))


def cosine(hook: str, *, layers: Layers = "all") -> derived_pb2.DerivedSpec:
    """With the same position's row of the selected layer before: none for the first"""
    return derived_pb2.DerivedSpec(cosine=derived_pb2.LayerCosine(where=select_hook(hook, layers=layers)))


def mean(hook: str, *, layers: Layers = "all") -> derived_pb2.DerivedSpec:
    """Of the rows of the prompt, and of the generated ones: the positions are
    those of the last of each"""
    return derived_pb2.DerivedSpec(mean=derived_pb2.RowMean(where=select_hook(hook, layers=layers)))
