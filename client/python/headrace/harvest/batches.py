"""The iterator over batches."""
from __future__ import annotations

import threading
import weakref
from dataclasses import dataclass, replace
from typing import Any, Iterable, Iterator, List, Optional, Sequence

from headrace.arrays import Array, Integers
from headrace.client import Client
from headrace.harvest.blocks import Block, order_of
from headrace.harvest.producer import Producer
from headrace.harvest.rows import RowReader, Selection, TextOrTokens
from headrace.harvest.state import HarvestState, digest
from headrace.selection import Layers, RowSelector
from headrace.tensors import to_tensor


@dataclass
class Batch:
    """Rows, and what each one is. The arrays are the caller's own."""

    activations: Array  # [rows, width]; [rows, points, width] of several points
    tokens: Integers  # [rows]
    positions: Integers  # [rows]
    prompts: Integers  # [rows]: which prompt, counted from 0

    def __len__(self) -> int:
        return len(self.activations)

    def to_torch(self, device: Any = None) -> Any:
        """The activations as a tensor."""
        return to_tensor(self.activations, device)


class Harvest(Iterator[Batch]):
    """Batches of activation rows of many prompts, shuffled.

    `prompts` are texts or lists of token ids: any iterable. A point is a hook at
    a layer; `names` says which there are. Special tokens (control tokens, and
    those that begin and end texts) are left out unless `exclude_tokens` names
    others. `rows` selects among a prompt's rows. More options are forward()'s:
    `interventions`, `context_extension`, `add_special_tokens`…

    Rows, in the prompts' order, fill blocks of `buffer_rows` rows (rounded up to
    whole batches); each block is shuffled as a whole and given out in batches of
    `batch_rows`. With `seed` None nothing is shuffled.

    Promised:
    - Every selected row comes exactly once, the last batch being smaller, or
      left out with `drop_last`.
    - The batches depend on the prompts, the selection, the sizes and the seed
      alone: not on timing, `in_flight`, `prefetch`, or how often the server was
      away. As the server's rows are the same bits in any batch, so are these.
    - Memory: (1 + prefetch) blocks, the prompts in flight and the caller's
      batches, however many prompts there are. When the blocks are full, nothing
      is asked of the server.
    - `state` resumes after the last batch with the same batches. At most one
      block is computed again; prompts before it are skipped, at once in a
      sequence. Another prompt, model, selection, size or seed is an error.
    - A call that breaks is made again as the client's RetryPolicy says; any
      other error is raised at its block's turn, and `state` resumes from there.

    Leaving it open keeps a thread; close it, or use it as a context manager.
    """

    def __init__(self, client: Client, prompts: Iterable[TextOrTokens], *, hooks: Sequence[str] = ("resid_post",),
                 layers: Layers = "all", batch_rows: int = 4096, buffer_rows: int = 65536, seed: Optional[int] = 0,
                 rows: Optional[RowSelector] = None, exclude_tokens: Optional[Sequence[int]] = None,
                 dtype: str = "f32", native: bool = False, in_flight: int = 8, prefetch: int = 1,
                 drop_last: bool = False, state: Optional[HarvestState] = None, **options: Any) -> None:
        for name, value in (("batch_rows", batch_rows), ("in_flight", in_flight), ("prefetch", prefetch)):
            if value < 1:
                raise ValueError(f"{name} must be at least 1; is {value}")
        if isinstance(prompts, str):
            raise TypeError("prompts is a string; it takes texts or lists of token ids")
        reader = RowReader(client, Selection(hooks, layers, rows, exclude_tokens, dtype, native), options)
        block_rows = max(1, -(-buffer_rows // batch_rows)) * batch_rows
        settings = {"model": reader.model.weights_sha256, "numerics": reader.model.numerics, "points": reader.names,
                    "batch_rows": batch_rows, "buffer_rows": block_rows, "seed": seed, "dtype": dtype,
                    "exclude_tokens": digest(reader.excluded), "rows": "" if rows is None else str(rows)}
        if state is not None:
            state.check_settings(settings)
        self.names: List[str] = reader.names
        self._batch_rows, self._seed, self._drop_last = batch_rows, seed, drop_last
        self._state = HarvestState(settings) if state is None else state
        self._block: Optional[Block] = None
        self._order: Optional[Integers] = None
        # It knows nothing of this object, which may thus be dropped unclosed.
        start = replace(self._state, batches=0)
        self._producer = Producer(reader, start, in_flight, 1 + prefetch, block_rows)
        self._ended = False
        self._finalizer = weakref.finalize(self, self._producer.close)
        threading.Thread(target=self._producer.run, args=(prompts,), name="headrace-harvest", daemon=True).start()

    @property
    def state(self) -> HarvestState:
        """Where the harvest stands after the last batch."""
        return self._state

    def __next__(self) -> Batch:
        if self._block is None and not self._next_block():
            raise StopIteration
        assert self._block is not None and self._order is not None
        first = self._state.batches * self._batch_rows
        chosen = self._order[first:first + self._batch_rows]
        if len(chosen) < self._batch_rows and self._drop_last:
            self._finish_block()
            return next(self)
        batch = self._make_batch(chosen)
        self._state = self._block.start.after(self._state.batches + 1)
        if first + len(chosen) == len(self._order):
            self._finish_block()
        return batch

    def close(self) -> None:
        """Cancels the calls that run; there are no more batches."""
        self._ended, self._block = True, None
        self._finalizer()

    def __enter__(self) -> "Harvest":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _next_block(self) -> bool:
        if self._ended:
            return False
        produced = self._producer.get()
        if isinstance(produced, Block):
            self._block = produced
            self._order = order_of(produced.filled, self._seed, produced.start.block)
            # Where a resumed harvest stands in its first block.
            self._state = produced.start.after(self._state.batches)
            return True
        self.close()
        if produced is not None:
            raise produced
        return False

    def _finish_block(self) -> None:
        assert self._block is not None
        self._state = self._block.next_start
        self._producer.give_back(self._block)
        self._block = None

    def _make_batch(self, chosen: Integers) -> Batch:
        assert self._block is not None
        rows = self._block.rows
        activations = rows.activations[chosen]
        return Batch(activations[:, 0] if len(self.names) == 1 else activations, rows.tokens[chosen],
                     rows.positions[chosen], self._block.prompts[chosen])
