"""The rows of one prompt."""
from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Mapping, Optional, Sequence, Union

import grpc
import numpy as np

from headrace import methods, requests
from headrace.arrays import Array, Integers
from headrace.cache_builder import SequenceNumbers
from headrace.client import Client
from headrace.errors import DataLossError, ResourceExhaustedError, UnavailableError
from headrace.event_stream import EventStream
from headrace.events import Header
from headrace.retry import Attempts
from headrace.selection import Layers, RowSelector, make_capture, prompt_rows
from headrace.wire import Rows, copy_rows, native_dtype

TextOrTokens = Union[str, Sequence[int]]


@dataclass
class PromptRows:
    """[rows, points, width], and what each row is."""

    activations: Array
    tokens: Integers
    positions: Integers

    def __len__(self) -> int:
        return len(self.activations)


@dataclass(frozen=True)
class Selection:
    """What is taken of every prompt. A point is a hook at a layer."""

    hooks: Sequence[str]
    layers: Layers = "all"
    rows: Optional[RowSelector] = None
    exclude_tokens: Optional[Sequence[int]] = None
    dtype: str = "f32"
    native: bool = False


class RowReader:
    """Reads prompts through one client. Thread-safe."""

    def __init__(self, client: Client, selection: Selection, options: Mapping[str, Any]) -> None:
        self.model = client.get_model()
        excluded = selection.exclude_tokens
        self.excluded = sorted(set(special_tokens(self.model) if excluded is None else excluded))
        rows = RowSelector()
        rows.CopyFrom(prompt_rows() if selection.rows is None else selection.rows)
        rows.exclude_token_ids.extend(self.excluded)
        names = client._names()
        self._client = client
        self._options = dict(options)
        self._capture = make_capture(names.selectors(selection.hooks, selection.layers), rows, selection.dtype)
        self._dtype = native_dtype(self._capture.dtype) if selection.native else np.dtype(np.float32)
        # Which points there are, before any prompt is run.
        probe = requests.cached_run(client._model, [0], self._capture, {})
        resolved = client._call(requests.estimate_capture(probe)).hooks
        self._points = {(hook.hook, layer): 0 for hook in resolved for layer in (hook.layers or [-1])}
        self._points = {key: index for index, key in enumerate(self._points)}
        self.names = [names.key(hook, layer) for hook, layer in self._points]
        self.width = resolved[0].width
        if any(hook.width != self.width for hook in resolved):
            raise ValueError("hooks of different widths do not fit one array: "
                             + ", ".join(f"{names.key(hook.hook, 0)} has {hook.width}" for hook in resolved))

    def empty(self, rows: int) -> PromptRows:
        return PromptRows(np.empty((rows, len(self._points), self.width), self._dtype), np.empty(rows, np.int64),
                          np.empty(rows, np.int64))

    def read(self, prompt: TextOrTokens, opened: Callable[[EventStream], None] = lambda stream: None) -> PromptRows:
        """All rows of a prompt; none when all are excluded.

        A stream that breaks is read again from its start, as the client's
        RetryPolicy says. `opened` is given each stream, to close it from
        another thread: then what is here already is returned.
        """
        request = requests.forward(self._client._model, prompt, {**self._options, "capture": self._capture})
        attempts = Attempts(self._client._target.retry, None)
        while True:
            attempts.begin()
            with self._client._rows(methods.FORWARD_ROWS, request) as stream:
                opened(stream)
                header = next(stream)
                try:
                    return self._gather(header, stream)
                except (UnavailableError, ResourceExhaustedError) as error:
                    failure = error
            time.sleep(attempts.pause(failure))

    def _gather(self, header: Any, stream: Iterator[Any]) -> PromptRows:
        assert isinstance(header, Header)
        found = self.empty(header.activation_rows_expected // len(self._points))
        filled, sequence = [0] * len(self._points), SequenceNumbers()
        for rows in stream:
            if not isinstance(rows, Rows):
                continue
            chunk = rows.chunk
            sequence.check(chunk.sequence_number)
            point = self._points[chunk.hook, chunk.layer if chunk.HasField("layer") else -1]
            where = slice(filled[point], filled[point] + chunk.row_count)
            copy_rows(rows, found.activations[where, point])
            if point == 0:
                found.tokens[where] = chunk.token_ids
                found.positions[where] = chunk.positions
            filled[point] = where.stop
        count = filled[0]
        if any(other != count for other in filled):
            raise DataLossError(f"hooks have different numbers of rows: {filled}", grpc.StatusCode.DATA_LOSS)
        return PromptRows(found.activations[:count], found.tokens[:count], found.positions[:count])


def special_tokens(model: Any) -> List[int]:
    """Control tokens, and those that begin and end texts."""
    begin = [model.bos_token_id] if model.HasField("bos_token_id") else []
    return [*model.control_token_ids, *model.end_token_ids, *begin]
