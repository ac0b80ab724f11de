"""What the engine derives from rows: the logit lens, and what made a logit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Sequence, Tuple, Union

import numpy as np

from headrace.arrays import Array, Integers
from headrace.events import Derived, Event
from headrace.selection import Layers, hook_selector
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


class LensBuilder(DerivedRows):
    def __init__(self, top_k: int) -> None:
        super().__init__()
        self._top_k = top_k

    def result(self) -> LogitLens:
        layers = sorted({layer for layer, _ in self._rows})
        positions = sorted({position for _, position in self._rows})
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
        positions = sorted(position for _, position in self._rows)
        values = np.array([self._rows[-1, p][0] for p in positions])
        values = values.reshape(len(positions), self._tokens, len(self._labels) + 2)
        return Attribution(labels=self._labels, positions=np.array(positions, np.int64), values=values[..., :-2],
                           residue=values[..., -2], logits=values[..., -1])


def lens_spec(hook: str, layers: Layers, top_k: int, tokens: Sequence[int]) -> derived_pb2.DerivedSpec:
    return derived_pb2.DerivedSpec(logit_lens=derived_pb2.LogitLens(
        where=hook_selector(hook, layers), top_k=top_k, token_ids=tokens))


def attribution_spec(tokens: Sequence[int], contrast: Sequence[int], by_head: bool) -> derived_pb2.DerivedSpec:
    return derived_pb2.DerivedSpec(direct_logit_attribution=derived_pb2.LogitAttribution(
        token_ids=tokens, contrast_ids=contrast, by_head=by_head))
