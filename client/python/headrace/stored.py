"""What a server keeps for a while: vectors, and rows of a pass."""
from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

import numpy as np

from headrace.arrays import Array, Integers
from headrace.selection import hook_name
from headrace.v1 import vectors_pb2


@dataclass
class StoredBlock:
    """Rows of one hook and layer."""

    hook: str
    layer: Optional[int]
    positions: Integers
    values: Optional[Array]  # [rows, width]; None when they were not asked for


@dataclass
class Stored:
    """`values` of a vector, or `blocks` of rows."""

    sha256: str
    expires_in: float  # seconds
    value_count: int
    values: Optional[Array]
    blocks: List[StoredBlock]


def read_stored(reply: vectors_pb2.GetVectorResponse) -> Stored:
    values = np.frombuffer(reply.f32, "<f4").astype(np.float32) if reply.f32 else None
    blocks, at = [], 0
    for block in reply.blocks:
        end = at + len(block.positions) * block.width
        blocks.append(StoredBlock(hook_name(block.hook), block.layer if block.HasField("layer") else None,
                                  np.array(block.positions, np.int64),
                                  None if values is None else values[at:end].reshape(-1, block.width)))
        at = end
    return Stored(reply.sha256, reply.expires_in, reply.value_count, None if blocks else values, blocks)
