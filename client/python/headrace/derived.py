"""What the engine derives from rows: the logit lens, and what made a logit."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Tuple

import numpy as np

from headrace.v1 import derived_pb2, selection_pb2


@dataclass
class LogitLens:
    """What each layer would predict, with the final norm's statistics taken
    from the row itself."""

    layers: List[int]
    positions: np.ndarray  # [rows]
    ids: np.ndarray  # [layers, rows, top_k], likeliest first
    pieces: List[List[List[bytes]]]  # the same tokens' bytes
    logprobs: np.ndarray  # [layers, rows, top_k]
    token_logprobs: np.ndarray  # [layers, rows, tokens], of the tokens asked for
    token_ranks: np.ndarray  # [layers, rows, tokens], 1 is the likeliest


@dataclass
class Attribution:
    """A logit as a sum: labels[i] wrote values[..., i] of it."""

    labels: List[str]
    positions: np.ndarray  # [rows]
    values: np.ndarray  # [rows, tokens, parts]
    residue: np.ndarray  # [rows, tokens]: what rounding and interventions on the bus made
    logits: np.ndarray  # [rows, tokens]


Rows = Dict[Tuple[int, int], Tuple[np.ndarray, np.ndarray, List[bytes]]]


def collect(chunks: List[derived_pb2.Derived]) -> Rows:
    """(layer, position) -> values, ids, pieces."""
    rows: Rows = {}
    for chunk in chunks:
        if chunk.choice:
            raise ValueError("rows of several choices have the same positions: ask for n=1")
        layer = chunk.layer if chunk.HasField("layer") else -1
        values = np.frombuffer(chunk.values, "<f4").astype(np.float32).reshape(chunk.row_count, chunk.width)
        ids = np.array(chunk.ids, np.int64).reshape(chunk.row_count, -1)
        per_row = len(chunk.pieces) // max(1, chunk.row_count)
        for i, position in enumerate(chunk.positions):
            rows[layer, position] = (values[i], ids[i], list(chunk.pieces[i * per_row:(i + 1) * per_row]))
    return rows


def make_lens(chunks: List[derived_pb2.Derived], top_k: int) -> LogitLens:
    rows = collect(chunks)
    layers = sorted({layer for layer, _ in rows})
    positions = sorted({position for _, position in rows})
    values = np.array([[rows[layer, p][0] for p in positions] for layer in layers])
    return LogitLens(
        layers=layers, positions=np.array(positions, np.int64),
        ids=np.array([[rows[layer, p][1] for p in positions] for layer in layers]),
        pieces=[[rows[layer, p][2] for p in positions] for layer in layers],
        logprobs=values[..., :top_k], token_logprobs=values[..., top_k::2],
        token_ranks=values[..., top_k + 1::2].astype(np.int64))


def make_attribution(chunks: List[derived_pb2.Derived], tokens: int, layers: int, heads: int) -> Attribution:
    """`heads` 0: attention as a whole."""
    labels = ["embed"]
    for layer in range(layers):
        labels += [f"L{layer}H{head}" for head in range(heads)] if heads else [f"{layer}_attn_out"]
        labels.append(f"{layer}_mlp_out")
    rows = collect(chunks)
    positions = sorted(position for _, position in rows)
    values = np.array([rows[-1, p][0] for p in positions]).reshape(len(positions), tokens, len(labels) + 2)
    return Attribution(labels=labels, positions=np.array(positions, np.int64), values=values[..., :-2],
                       residue=values[..., -2], logits=values[..., -1])


def prompt_rows() -> selection_pb2.RowSelector:
    return selection_pb2.RowSelector(prompt=selection_pb2.PhaseRows(all=True))
