"""Blocks of rows, and the order in which a block is given out."""
from __future__ import annotations

from typing import Optional

import numpy as np

from headrace.arrays import Integers
from headrace.harvest.rows import PromptRows
from headrace.harvest.state import HarvestState


class Block:
    """A buffer of rows in the prompts' order; used again and again."""

    def __init__(self, buffer: PromptRows, prompts: Integers) -> None:
        self.rows = buffer
        self.prompts = prompts
        self.capacity = len(buffer)
        self.start: HarvestState
        self.next_start: HarvestState  # of the block after it
        self.filled = 0

    def take(self, rows: PromptRows, first: int, prompt: int) -> int:
        """Copies rows from `first` on, as many as fit; returns how many."""
        count = min(len(rows) - first, self.capacity - self.filled)
        here, there = slice(self.filled, self.filled + count), slice(first, first + count)
        self.rows.activations[here] = rows.activations[there]
        self.rows.tokens[here] = rows.tokens[there]
        self.rows.positions[here] = rows.positions[there]
        self.prompts[here] = prompt
        self.filled += count
        return count


def order_of(rows: int, seed: Optional[int], block: int) -> Integers:
    """A permutation of a block's rows; their own order without a seed.

    Made of raw bits, the same in every version of numpy, unlike what
    Generator.permutation gives.
    """
    if seed is None:
        return np.arange(rows)
    bits = np.random.PCG64(np.random.SeedSequence([seed, block])).random_raw(rows)
    return np.argsort(bits, kind="stable")
