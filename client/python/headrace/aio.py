"""The client for asyncio: the same methods as headrace.Client, awaited.

    async with headrace.aio.Client("localhost:50051") as client:
        async for event in client.generate("Once upon", max_tokens=32):
            ...
"""
from __future__ import annotations

import asyncio
import functools
from typing import Any, AsyncIterator, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, TypeVar, Union

import grpc
import grpc.aio

from headrace.arrays import Array
from headrace import derived, errors, methods, requests
from headrace.cache import ActivationCache
from headrace.cache_builder import CacheBuilder
from headrace.connection import Stubs
from headrace.derived import (
    Attribution,
    AttributionBuilder,
    LensBuilder,
    LogitLens,
    Quantity,
    QuantityBuilder,
)
from headrace.events import Builder, Event, event_of
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

# Starts the call with a request and a timeout.
Start = Callable[[Request, Optional[float]], Any]


class EventStream(AsyncIterator[Event]):
    """The events of a call that runs already. Closing it cancels the call, and
    so do dropping it and cancelling the task that reads. A call that fails is
    made again as the client's RetryPolicy says, and goes on where it broke."""

    def __init__(self, start: Start, position: StreamPosition) -> None:
        self._start = start
        self._position = position
        self._closed = False
        self._loop = asyncio.get_running_loop()
        self._call = start(*position.begin())

    @property
    def continuation(self) -> Dict[str, Any]:
        """As in headrace.EventStream."""
        return self._position.continuation

    async def __anext__(self) -> Event:
        while not self._closed:
            try:
                response = await self._call.read()
            except grpc.RpcError as error:
                failure = errors.from_rpc_error(error)
            except asyncio.CancelledError:
                if self._closed:  # by another task, which cancelled the call and not this one
                    break
                self.close()
                raise
            else:
                if response is grpc.aio.EOF:
                    break
                event: Optional[Event] = self._position.take(event_of(response))
                if event is not None:
                    return event
                continue
            await self._begin_again(failure)
        raise StopAsyncIteration

    async def _begin_again(self, failure: errors.HeadraceError) -> None:
        await asyncio.sleep(self._position.pause(failure))
        if not self._closed:
            self._call = self._start(*self._position.begin())

    def close(self) -> None:
        self._closed = True
        self._call.cancel()

    async def aclose(self) -> None:
        """close(), for contextlib.aclosing()."""
        self.close()

    async def __aenter__(self) -> "EventStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        # The garbage collector may run in any thread, and after the loop.
        if hasattr(self, "_call") and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._call.cancel)


class Client:
    """headrace.Client for asyncio; see there for what arguments mean.

    Belongs to the event loop of its first call. Use it as an asynchronous
    context manager, or await close(). It does not survive a fork: grpc.aio
    has no support for that.
    """

    def __init__(self, address: str, *, model: str = "", timeout: Optional[float] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None, retry: Optional[RetryPolicy] = None) -> None:
        self._target = Target(address, model, timeout, credentials, retry)
        self._model = self._target.model
        self._hook_names: Optional[HookNames] = None
        self._open_stubs: Optional[Stubs] = None
        self._closed = False

    async def close(self) -> None:
        """Ends the calls that run."""
        self._closed = True
        if self._open_stubs is not None:
            await self._open_stubs.channel.close()

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- Models -------------------------------------------------------------

    async def list_models(self) -> List[models_pb2.Model]:
        return await self._call(requests.list_models())

    async def get_model(self) -> models_pb2.Model:
        return await self._call(requests.get_model(self._model))

    async def list_hook_points(self) -> List[models_pb2.HookPointInfo]:
        return await self._call(requests.list_hook_points(self._model))

    # --- Text and tokens ----------------------------------------------------

    async def tokenize(self, text: str, *, add_special_tokens: Optional[bool] = None,
                       parse_special: bool = False) -> List[int]:
        return await self._call(requests.tokenize(self._model, text, add_special_tokens, parse_special))

    async def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        return await self._call(requests.detokenize(self._model, ids, skip_special_tokens))

    async def apply_chat_template(self, messages: Sequence[ChatMessage], **chat: Any) -> ChatPrompt:
        return await self._call(requests.apply_chat_template(self._model, make_chat(messages, **chat)))

    async def embed(self, inputs: Sequence[Union[str, Sequence[int]]], *, hook: str = "final_norm_out",
                    layer: Optional[int] = None, pooling: str = "mean", normalize: bool = False,
                    **options: Any) -> Array:
        return await self._call(requests.embed(self._model, inputs, hook, layer, pooling,
                                               {"normalize": normalize, **options}))

    # --- Generation ---------------------------------------------------------

    def generate(self, prompt: Prompt, **options: Any) -> EventStream:
        return self._stream(methods.GENERATE, requests.generate(self._model, prompt, options))

    async def generate_text(self, prompt: Prompt, **options: Any) -> str:
        return await self._collect(TextBuilder(), self.generate(prompt, **options))

    async def chat(self, messages: Sequence[ChatMessage], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
                   template_kwargs: Optional[Mapping[str, Any]] = None, template: Optional[str] = None,
                   continue_final_message: bool = False, **options: Any) -> ChatMessage:
        prompt = make_chat(messages, tools=tools, template_kwargs=template_kwargs, template=template,
                           continue_final_message=continue_final_message)
        return {"role": "assistant", "content": await self.generate_text(prompt, **options)}

    # --- Activations --------------------------------------------------------

    def forward(self, prompt: Prompt, **options: Any) -> EventStream:
        return self._stream(methods.FORWARD, requests.forward(self._model, prompt, options))

    async def run_with_cache(self, prompt: Prompt, *, hooks: Hooks = ("resid_post",), layers: Layers = "all",
                             rows: Optional[RowSelector] = None, dtype: str = "f32", native: bool = False,
                             checks: bool = False, **options: Any) -> Tuple[Array, ActivationCache]:
        names = await self._names()
        capture = requests.cache_capture(names, hooks, layers, rows, dtype, checks)
        attribute = functools.partial(self.logit_attrs, prompt, rows=rows, **options)
        steered = names.steered(options.get("interventions") or ())
        builder = CacheBuilder(names, native=native, steered=steered, attribute=attribute)
        cache = await self._run(prompt, capture, builder, options)
        return cache["logits"], cache

    async def estimate_capture(self, prompt: Prompt, *, hooks: Hooks = ("resid_post",),
                               layers: Layers = "all", rows: Optional[RowSelector] = None, dtype: str = "f32",
                               **options: Any) -> models_pb2.EstimateCaptureResponse:
        capture = requests.cache_capture(await self._names(), hooks, layers, rows, dtype, checks=False)
        return await self._call(requests.estimate_capture(requests.cached_run(self._model, prompt, capture, options)))

    async def logit_lens(self, prompt: Prompt, *, top_k: int = 5, tokens: Sequence[int] = (),
                         hook: str = "resid_post", layers: Layers = "all", rows: Optional[RowSelector] = None,
                         **options: Any) -> LogitLens:
        capture = requests.derived_capture([derived.logit_lens(hook, layers=layers, top_k=top_k, tokens=tokens)], rows)
        return await self._run(prompt, capture, LensBuilder(top_k), options)

    async def logit_attrs(self, prompt: Prompt, tokens: Sequence[int], *, contrast: Sequence[int] = (),
                          by_head: bool = False, rows: Optional[RowSelector] = None, **options: Any) -> Attribution:
        model = await self.get_model()
        capture = requests.derived_capture([derived.logit_attribution(tokens, contrast=contrast, by_head=by_head)], rows)
        builder = AttributionBuilder(len(tokens), model.num_hidden_layers, model.num_attention_heads if by_head else 0)
        return await self._run(prompt, capture, builder, options)

    async def derive(self, prompt: Prompt, specs: Sequence[derived_pb2.DerivedSpec], *,
                   rows: Optional[RowSelector] = None, **options: Any) -> List[Quantity]:
        return await self._run(prompt, requests.derived_capture(specs, rows), QuantityBuilder(len(specs)), options)

    # --- What stays on the server -------------------------------------------

    async def put_vector(self, vector: Any, *, time_to_live: Optional[float] = None) -> vectors_pb2.PutVectorResponse:
        return await self._call(requests.put_vector(vector, time_to_live))

    async def get_vector(self, sha256: str, *, without_values: bool = False) -> Stored:
        return await self._call(requests.get_vector(sha256, without_values))

    async def delete_vector(self, sha256: str) -> None:
        await self._call(requests.delete_vector(sha256))

    # --- How calls are made -------------------------------------------------

    async def _names(self) -> HookNames:
        if self._hook_names is None:
            self._hook_names = HookNames(await self.list_hook_points())
        return self._hook_names

    async def _run(self, prompt: Prompt, capture: CaptureSpec, builder: Builder[T], options: Mapping[str, Any]) -> T:
        request = requests.cached_run(self._model, prompt, capture, options)
        return await self._collect(builder, self._stream(methods.GENERATE_ROWS, request))

    @staticmethod
    async def _collect(builder: Builder[T], stream: EventStream) -> T:
        async for event in stream:
            builder.add(event)
        return builder.result()

    def _stubs(self) -> Stubs:
        if self._closed:
            raise ValueError("the client is closed")
        if self._open_stubs is None:
            self._open_stubs = Stubs(self._target.open_channel(grpc.aio))
        return self._open_stubs

    def _stream(self, method: Method[Any, Any], request: Request) -> EventStream:
        return EventStream(lambda request, timeout: self._stubs()[method](request, timeout=timeout),
                           StreamPosition(request, self._target.attempts()))

    async def _call(self, unary: Unary[T]) -> T:
        attempts = self._target.attempts()
        while True:
            try:
                return unary.read(await self._stubs()[unary.method](unary.request, timeout=attempts.begin()))
            except grpc.RpcError as error:
                failure = errors.from_rpc_error(error)
            await asyncio.sleep(attempts.pause(failure))
