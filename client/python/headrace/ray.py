"""Activation rows as a Ray dataset: many servers, many machines.

    rows = headrace.ray.read_activations(["node1:50051", "node2:50051"], prompts, hooks=["resid_post"], layers=[12])
    for batch in rows.iter_torch_batches(batch_size=4096, local_shuffle_buffer_size=65536):
        train(batch["activations"])

Needs the package ray[data].
"""
from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence

import numpy as np

from headrace.client import Client
from headrace.harvest import Batch, Harvest
from headrace.harvest.rows import TextOrTokens

try:
    import ray
    from ray.data import Dataset, Datasource, ReadTask, read_datasource
    from ray.data.block import Block, BlockAccessor, BlockMetadata
except ImportError:
    raise ImportError("headrace.ray needs the package ray with ray.data: pip install 'ray[data]'") from None


class Activations(Datasource):
    """A source for ray.data.read_datasource(); read_activations() is shorter.

    Each read task takes a run of consecutive prompts, opens its own client to
    one of the servers, in turn, and yields blocks of at most `block_rows` rows
    in the prompts' order: the same rows whichever server and attempt they come
    from. `prompts` goes to Ray's object store once; a sequence that reads its
    items from files when asked stays small there. `client` makes a client from
    an address, where credentials or a timeout are needed. `options` are
    Harvest's: hooks, layers, rows, exclude_tokens, dtype, in_flight, and
    forward()'s.
    """

    def __init__(self, addresses: Sequence[str], prompts: Sequence[TextOrTokens], *, block_rows: int = 4096,
                 client: Callable[[str], Client] = Client, **options: Any) -> None:
        super().__init__()
        if isinstance(addresses, str):
            raise TypeError(f"addresses is a string, {addresses!r}; it takes a sequence of them")
        if not addresses:
            raise ValueError("addresses is empty")
        taken = sorted(options.keys() & {"seed", "batch_rows", "buffer_rows", "drop_last", "state"})
        if taken:
            raise TypeError(f"rows come in the prompts' order, for Ray to shuffle and batch: {taken[0]} has no meaning")
        self._addresses = list(addresses)
        self._count = len(prompts)
        self._prompts = ray.put(prompts)
        self._make_client = client
        self._options = {**options, "seed": None, "batch_rows": block_rows, "buffer_rows": block_rows}

    def get_name(self) -> str:
        return "Activations"

    def estimate_inmemory_data_size(self) -> Optional[int]:
        return None

    def get_read_tasks(self, parallelism: int, per_task_row_limit: Optional[int] = None,
                       data_context: Any = None) -> List[ReadTask]:
        tasks = min(parallelism, self._count)
        bounds = [self._count * i // tasks for i in range(tasks + 1)] if tasks else [0]
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(self._reader(i, bounds[i], bounds[i + 1]), unknown, per_task_row_limit=per_task_row_limit)
                for i in range(tasks)]

    def _reader(self, task: int, first: int, end: int) -> Callable[[], Iterator[Block]]:
        address = self._addresses[task % len(self._addresses)]
        prompts, make_client, options = self._prompts, self._make_client, self._options

        def read() -> Iterator[Block]:
            every = ray.get(prompts)
            with make_client(address) as client:
                with Harvest(client, (every[i] for i in range(first, end)), **options) as harvest:
                    for batch in harvest:
                        yield BlockAccessor.batch_to_block(columns(batch, first))

        return read


def columns(batch: Batch, first_prompt: int) -> Dict[str, Any]:
    """A row of the dataset: [width] (or [points, width]), and what it is."""
    return {"activations": np.ascontiguousarray(batch.activations), "token": batch.tokens,
            "position": batch.positions, "prompt": batch.prompts + first_prompt}


def read_activations(addresses: Sequence[str], prompts: Sequence[TextOrTokens], *,
                     override_num_blocks: Optional[int] = None, concurrency: Optional[int] = None,
                     ray_remote_args: Optional[Dict[str, Any]] = None, **options: Any) -> Dataset:
    """A dataset with columns activations, token, position and prompt.

    `override_num_blocks` (how many read tasks), `concurrency` and
    `ray_remote_args` are Ray's; options are those of Activations.
    """
    return read_datasource(Activations(addresses, prompts, **options), override_num_blocks=override_num_blocks,
                           concurrency=concurrency, ray_remote_args=ray_remote_args)
