"""The client: one channel to one server. headrace.aio has the same for asyncio."""
from __future__ import annotations

import functools
import time
from typing import Any, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import grpc

from headrace.arrays import Array
from headrace import derived, methods, requests
from headrace.cache import ActivationCache
from headrace.cache_builder import CacheBuilder
from headrace.connection import Connection
from headrace.derived import (
    Attribution,
    AttributionBuilder,
    LensBuilder,
    LogitLens,
    Quantity,
    QuantityBuilder,
)
from headrace.event_stream import EventStream, RowStream, Start
from headrace.events import Builder
from headrace.hooks import HookNames
from headrace.methods import Method
from headrace.prompts import ChatMessage, Prompt, make_chat
from headrace.requests import ChatPrompt, Unary
from headrace.retry import RetryPolicy
from headrace.selection import CaptureSpec, Hooks, Layers, RowSelector
from headrace.stored import Stored
from headrace.stream_position import Request, StreamPosition
from headrace.target import Target
from headrace.text_builder import TextBuilder
from headrace.v1 import derived_pb2, models_pb2, vectors_pb2

T = TypeVar("T")


class Client:
    """A client of the server at `address` ("localhost:50051").

    Thread-safe. Use it as a context manager, or call close(). Parent and child
    may both use it after a fork; with grpcio before 1.54, a fork ends the calls
    that run. `timeout` bounds each call in seconds, its repetitions included;
    `retry` says when there are some (RetryPolicy).
    """

    def __init__(self, address: str, *, model: str = "", timeout: Optional[float] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None, retry: Optional[RetryPolicy] = None) -> None:
        self._target = Target(address, model, timeout, credentials, retry)
        self._model = self._target.model
        self._hook_names: Optional[HookNames] = None
        self._connection = Connection(functools.partial(self._target.open_channel, grpc))

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- Models -------------------------------------------------------------

    def list_models(self) -> List[models_pb2.Model]:
        """Every model of the server."""
        return self._call(requests.list_models())

    def get_model(self) -> models_pb2.Model:
        """This client's model: dimensions, tokenizer, rotary encoding, weights."""
        return self._call(requests.get_model(self._model))

    def list_hook_points(self) -> List[models_pb2.HookPointInfo]:
        """Every hook with its width and names, and the reason for what is refused."""
        return self._call(requests.list_hook_points(self._model))

    # --- Text and tokens ----------------------------------------------------

    def tokenize(self, text: str, *, add_special_tokens: Optional[bool] = None,
                 parse_special: bool = False) -> List[int]:
        """Exactly the ids that generate() would run."""
        return self._call(requests.tokenize(self._model, text, add_special_tokens, parse_special))

    def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return self._call(requests.detokenize(self._model, ids, skip_special_tokens))

    def apply_chat_template(self, messages: Sequence[ChatMessage], **chat: Any) -> ChatPrompt:
        """The text and the ids that a conversation becomes. `chat`: as make_chat() takes them."""
        return self._call(requests.apply_chat_template(self._model, make_chat(messages, **chat)))

    def embed(self, inputs: Sequence[Union[str, Sequence[int]]], *, hook: str = "final_norm_out",
              layer: Optional[int] = None, pooling: str = "mean", normalize: bool = False,
              **options: Any) -> Array:
        """Pooled rows of a hook, one per input: [inputs, width] float32.

        `layer`: the last one when it is None, for hooks that have layers.
        Options: add_special_tokens, parse_special, context_extension.
        """
        return self._call(requests.embed(self._model, inputs, hook, layer, pooling,
                                         {"normalize": normalize, **options}))

    # --- Generation ---------------------------------------------------------

    def generate(self, prompt: Prompt, **options: Any) -> EventStream:
        """Events of one call, as they come: Header, Token…, ChoiceEnd, End.

        `prompt` is text, token ids, chat messages ({"role", "content"}, and
        "name", "tool_calls", "tool_call_id" where they apply) or what
        make_chat() gives. Options are the fields of SamplingParams,
        StopConditions and GenerateRequest by name: `temperature`, `max_tokens`,
        `capture` (headrace.capture), `interventions` (headrace.interventions),
        `logprobs={"top_n": 3}`… A part of the request is its message or its
        fields by name.
        Leaving or closing the iterator cancels the call.
        """
        return self._stream(methods.GENERATE, requests.generate(self._model, prompt, options))

    def generate_text(self, prompt: Prompt, **options: Any) -> str:
        """The text of the first choice. Options: generate()'s."""
        return self._collect(TextBuilder(), self.generate(prompt, **options))

    def chat(self, messages: Sequence[ChatMessage], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
             template_kwargs: Optional[Mapping[str, Any]] = None, template: Optional[str] = None,
             continue_final_message: bool = False, **options: Any) -> ChatMessage:
        """The assistant's next message, to append to the conversation.

        Options: generate()'s. To read it as it is written:
        generate(make_chat(messages, …)).
        """
        prompt = make_chat(messages, tools=tools, template_kwargs=template_kwargs, template=template,
                           continue_final_message=continue_final_message)
        return {"role": "assistant", "content": self.generate_text(prompt, **options)}

    # --- Activations --------------------------------------------------------

    def forward(self, prompt: Prompt, **options: Any) -> EventStream:
        """Events of a pass over given tokens, without sampling: Header,
        PromptLogprobs, ActivationChunk and Derived as they come, End.

        Options are the fields of ForwardRequest by name: `capture`, `logprobs`,
        `interventions`, `context_extension`…
        """
        return self._stream(methods.FORWARD, requests.forward(self._model, prompt, options))

    def run_with_cache(self, prompt: Prompt, *, hooks: Hooks = ("resid_post",), layers: Layers = "all",
                       rows: Optional[RowSelector] = None, dtype: str = "f32", native: bool = False,
                       checks: bool = False, **options: Any) -> Tuple[Array, ActivationCache]:
        """Logits and activations of a prompt (and, with max_tokens, of what follows).

        Returns logits [rows, vocab_size] and the cache, float32. `rows`
        (headrace.rows) selects rows; every prompt row when it is None. `dtype`
        is what travels: "f32", "bf16", "f16", "int8"; with `native`, bf16 and
        f16 arrays stay what they are (ml_dtypes.bfloat16, numpy.float16).
        max_tokens is 0 by default: no sampling.
        """
        names = self._names()
        capture = requests.cache_capture(names, hooks, layers, rows, dtype, checks)
        attribute = functools.partial(self.logit_attrs, prompt, rows=rows, **options)
        steered = names.steered(options.get("interventions") or ())
        builder = CacheBuilder(names, native=native, steered=steered, attribute=attribute)
        cache = self._run(prompt, capture, builder, options)
        return cache["logits"], cache

    def estimate_capture(self, prompt: Prompt, *, hooks: Hooks = ("resid_post",), layers: Layers = "all",
                         rows: Optional[RowSelector] = None, dtype: str = "f32",
                         **options: Any) -> models_pb2.EstimateCaptureResponse:
        """Rows, bytes and messages that the same run_with_cache() would bring; runs nothing."""
        capture = requests.cache_capture(self._names(), hooks, layers, rows, dtype, checks=False)
        return self._call(requests.estimate_capture(requests.cached_run(self._model, prompt, capture, options)))

    def logit_lens(self, prompt: Prompt, *, top_k: int = 5, tokens: Sequence[int] = (), hook: str = "resid_post",
                   layers: Layers = "all", rows: Optional[RowSelector] = None, **options: Any) -> LogitLens:
        """What the model would predict if it stopped at each layer.

        `tokens`: ids whose log probability and rank are wanted too. `rows`:
        every prompt row when it is None.
        """
        capture = requests.derived_capture([derived.logit_lens(hook, layers=layers, top_k=top_k, tokens=tokens)], rows)
        return self._run(prompt, capture, LensBuilder(top_k), options)

    def logit_attrs(self, prompt: Prompt, tokens: Sequence[int], *, contrast: Sequence[int] = (),
                    by_head: bool = False, rows: Optional[RowSelector] = None, **options: Any) -> Attribution:
        """Direct logit attribution: what each writer adds to the tokens' logits
        (less those of `contrast`), by attention head if asked for."""
        model = self.get_model()
        capture = requests.derived_capture([derived.logit_attribution(tokens, contrast=contrast, by_head=by_head)], rows)
        builder = AttributionBuilder(len(tokens), model.num_hidden_layers, model.num_attention_heads if by_head else 0)
        return self._run(prompt, capture, builder, options)

    def derive(self, prompt: Prompt, specs: Sequence[derived_pb2.DerivedSpec], *,
             rows: Optional[RowSelector] = None, **options: Any) -> List[Quantity]:
        """What headrace.derived's functions ask for, one Quantity each, computed
        from rows next to the weights. `rows`: every prompt row when it is None."""
        return self._run(prompt, requests.derived_capture(specs, rows), QuantityBuilder(len(specs)), options)

    # --- What stays on the server -------------------------------------------

    def put_vector(self, vector: Any, *, time_to_live: Optional[float] = None) -> vectors_pb2.PutVectorResponse:
        """Leaves a direction on the server, under the hash of its content:
        `sha256` of the reply stands for it in interventions and projections.
        `time_to_live`: seconds; an hour when it is None."""
        return self._call(requests.put_vector(vector, time_to_live))

    def get_vector(self, sha256: str, *, without_values: bool = False) -> Stored:
        """A vector, or rows that a call kept (capture(…, keep=KeepRows())). What
        would pass 4 MiB is refused, unless `without_values`."""
        return self._call(requests.get_vector(sha256, without_values))

    def delete_vector(self, sha256: str) -> None:
        """Of rows that a call kept, too. Calls that use it keep it until they end."""
        self._call(requests.delete_vector(sha256))

    # --- How calls are made -------------------------------------------------

    def _names(self) -> HookNames:
        if self._hook_names is None:
            self._hook_names = HookNames(self.list_hook_points())
        return self._hook_names

    def _run(self, prompt: Prompt, capture: CaptureSpec, builder: Builder[T], options: Mapping[str, Any]) -> T:
        request = requests.cached_run(self._model, prompt, capture, options)
        return self._collect(builder, self._rows(methods.GENERATE_ROWS, request))

    @staticmethod
    def _collect(builder: Builder[T], stream: EventStream) -> T:
        with stream:
            for event in stream:
                builder.add(event)
        return builder.result()

    def _stream(self, method: Method[Any, Any], request: Request) -> EventStream:
        return EventStream(self._starter(method), StreamPosition(request, self._target.attempts()))

    def _rows(self, method: Method[Any, Any], request: Request) -> RowStream:
        return RowStream(self._starter(method), StreamPosition(request, self._target.attempts()))

    def _starter(self, method: Method[Any, Any]) -> Start:
        return lambda request, timeout: self._connection.start(
            lambda stubs: stubs[method](request, timeout=timeout))

    def _call(self, unary: Unary[T]) -> T:
        attempts = self._target.attempts()
        while True:
            timeout = attempts.begin()
            call, stubs = self._connection.start(
                lambda stubs: stubs[unary.method].future(unary.request, timeout=timeout))
            try:
                return unary.read(call.result())
            except grpc.FutureCancelledError:
                raise stubs.error(call) from None
            except grpc.RpcError as error:
                failure = stubs.error(error)
            time.sleep(attempts.pause(failure))
