"""Where a reader stands in a stream, and how a stream that broke goes on."""
from __future__ import annotations

import copy
from typing import Any, Dict, Optional, Set, Tuple, Union

from headrace.errors import HeadraceError, InvalidArgumentError
from headrace.events import ActivationChunk, ChoiceEnd, Derived, End, Event, Header, PromptLogprobs, Token
from headrace.retry import Attempts
from headrace.v1 import activations_pb2, generation_pb2
from headrace.wire import Rows

Request = Union[generation_pb2.GenerateRequest, generation_pb2.ForwardRequest]
# hook, derived, layer, head, choice; -1: none.
_Key = Tuple[int, int, int, int, int]


class StreamPosition:
    """Follows the events of one call and of those that continue it, which look
    like one stream: rows count on, and what came already does not come again."""

    def __init__(self, request: Request, attempts: Attempts) -> None:
        self._request = request
        self._attempts = attempts
        self._header: Optional[Header] = None
        self._rows: Dict[_Key, int] = {}
        self._tokens: Dict[int, int] = {}  # by choice
        self._prompt_logprobs = 0
        self._ended: Set[int] = set()  # choices
        self._complete = False
        self._chunks = 0  # delivered
        self._chunks_before = 0  # by the calls before this one
        self._failure: Optional[HeadraceError] = None  # that made this call the continuation of another
        if request.HasField("resume"):
            self._start_at(request.resume)

    def begin(self) -> Tuple[Request, Optional[float]]:
        """What to send now, and its timeout."""
        self._chunks_before = self._chunks
        request = copy.deepcopy(self._request)
        if self._header is not None:
            options = self.continuation
            request.resume.CopyFrom(options["resume"])
            if isinstance(request, generation_pb2.GenerateRequest):
                request.sampling.seed = options["seed"]
        return request, self._attempts.begin()

    def take(self, event: Union[Event, Rows]) -> Any:
        """The event, when it is new; else None."""
        if isinstance(event, Header):
            first, self._header = self._header is None, event
            return event if first else None
        if isinstance(event, ChoiceEnd):
            if event.choice in self._ended:
                return None
            self._ended.add(event.choice)
        elif isinstance(event, Token):
            self._tokens[event.choice] = self._tokens.get(event.choice, 0) + 1
        elif isinstance(event, PromptLogprobs):
            self._prompt_logprobs += 1
        elif isinstance(event, End):
            self._complete = True
        else:
            self._take_rows(event.chunk if isinstance(event, Rows) else event)
        self._attempts.progressed()
        return event

    def pause(self, failure: HeadraceError) -> float:
        """Seconds until a call that failed is made again, to go on from here;
        raises the failure when it is not."""
        if self._failure is not None and isinstance(failure, InvalidArgumentError):
            raise self._failure from failure  # the server is another one by now
        if self._complete or (self._header is not None and not self._replayable()):
            raise failure
        delay = self._attempts.pause(failure)
        self._failure = failure if self._header is not None else None
        return delay

    @property
    def continuation(self) -> Dict[str, Any]:
        if self._header is None:
            return {}
        tokens = [self._tokens.get(choice, 0) for choice in range(1 + max(self._tokens, default=-1))]
        cursor = activations_pb2.ResumeCursor(replay_id=self._header.replay_id, tokens=tokens,
                                              prompt_logprobs=self._prompt_logprobs)
        for (hook, derived, layer, head, choice), count in self._rows.items():
            received = cursor.rows.add(hook=hook, choice=choice, rows=count)
            for name, value in (("derived", derived), ("layer", layer), ("head", head)):
                if value >= 0:
                    setattr(received, name, value)
        if isinstance(self._request, generation_pb2.ForwardRequest):
            return {"resume": cursor}
        return {"resume": cursor, "seed": self._header.sampling.seed}

    def _replayable(self) -> bool:
        """Whether the stream depends on its request alone, and on no clock."""
        capture, request = self._request.capture, self._request
        timed = isinstance(request, generation_pb2.GenerateRequest) and request.stop.HasField("time_limit")
        return (self._header is not None and bool(self._header.replay_id) and not timed
                and capture.policy != activations_pb2.SLOW_READER_POLICY_DROP_WITH_GAPS
                and capture.cached_rows != activations_pb2.CACHED_ROWS_LEAVE_OUT)

    def _start_at(self, cursor: activations_pb2.ResumeCursor) -> None:
        for rows in cursor.rows:
            derived, layer, head = (getattr(rows, name) if rows.HasField(name) else -1
                                    for name in ("derived", "layer", "head"))
            self._rows[rows.hook, derived, layer, head, rows.choice] = rows.rows
        self._tokens = dict(enumerate(cursor.tokens))
        self._prompt_logprobs = cursor.prompt_logprobs

    def _take_rows(self, rows: Union[ActivationChunk, Derived]) -> None:
        layer = rows.layer if rows.HasField("layer") else -1
        if isinstance(rows, Derived):
            key = (rows.hook, rows.spec, layer, -1, rows.choice)
        else:
            key = (rows.hook, -1, layer, rows.head if rows.HasField("head") else -1, rows.choice)
        self._rows[key] = self._rows.get(key, 0) + rows.row_count
        self._chunks += 1
        rows.sequence_number += self._chunks_before
