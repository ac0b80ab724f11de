"""Requests from Python's values: one function per kind of call, for both clients.

A call is what to send, on which method, and how its reply reads; who makes it,
and whether it waits, is the client's affair.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Generic, List, Mapping, Optional, Sequence, TypeVar, Union

import numpy as np
from google.protobuf.message import Message

from headrace.arrays import Array
from headrace import methods
from headrace.checks import checked_text, set_field
from headrace.hooks import HookNames
from headrace.methods import Method
from headrace.prompts import Chat, Prompt, embed_input, set_prompt
from headrace.interventions import to_vector
from headrace.selection import CaptureSpec, Hooks, Layers, RowSelector, make_capture, prompt_rows
from headrace.selection import hook as select_hook
from headrace.stored import Stored, read_stored
from headrace.v1 import derived_pb2, generation_pb2, models_pb2, vectors_pb2

T = TypeVar("T")


@dataclass(frozen=True)
class Unary(Generic[T]):
    """A call with one reply."""

    method: Method[Any, Any]
    request: Message
    read: Callable[[Any], T]


@dataclass(frozen=True)
class ChatPrompt:
    """A rendered conversation, and the ids that generate() would run."""

    text: str
    ids: List[int]


def get_model(model: str) -> Unary[models_pb2.Model]:
    return Unary(methods.GET_MODEL, models_pb2.GetModelRequest(model=model), lambda reply: reply.model)


def list_models() -> Unary[List[models_pb2.Model]]:
    return Unary(methods.LIST_MODELS, models_pb2.ListModelsRequest(), lambda reply: list(reply.models))


def list_hook_points(model: str) -> Unary[List[models_pb2.HookPointInfo]]:
    return Unary(methods.LIST_HOOK_POINTS, models_pb2.ListHookPointsRequest(model=model),
                 lambda reply: list(reply.hooks))


def tokenize(model: str, text: str, add_special_tokens: Optional[bool], parse_special: bool) -> Unary[List[int]]:
    request = generation_pb2.TokenizeRequest(model=model, texts=[checked_text("text", text).encode()],
                                             parse_special=parse_special)
    set_field(request, "add_special_tokens", add_special_tokens)
    return Unary(methods.TOKENIZE, request, lambda reply: list(reply.results[0].ids))


def detokenize(model: str, ids: Sequence[int], skip_special_tokens: bool) -> Unary[str]:
    request = generation_pb2.DetokenizeRequest(model=model, ids=ids, skip_special_tokens=skip_special_tokens)
    return Unary(methods.DETOKENIZE, request, lambda reply: str(reply.text))


def apply_chat_template(model: str, chat: Chat) -> Unary[ChatPrompt]:
    request = generation_pb2.ApplyChatTemplateRequest(model=model, chat=chat)
    return Unary(methods.APPLY_CHAT_TEMPLATE, request, lambda reply: ChatPrompt(reply.text, list(reply.ids)))


def embed(model: str, inputs: Sequence[Union[str, Sequence[int]]], hook: str, layer: Optional[int], pooling: str,
          options: Mapping[str, Any]) -> Unary[Array]:
    if isinstance(inputs, str):
        raise TypeError(f"inputs is a string, {inputs!r}; it takes a sequence of texts or token ids")
    if pooling not in ("mean", "last"):
        raise ValueError(f"pooling is {pooling!r}; it is 'mean' or 'last'")
    request = generation_pb2.EmbedRequest(
        model=model, inputs=[embed_input(f"inputs[{i}]", value) for i, value in enumerate(inputs)],
        hook=select_hook(hook).hook, layer=layer,
        pooling="POOLING_" + pooling.upper())
    for name, value in options.items():
        set_field(request, name, value)
    return Unary(methods.EMBED, request, _read_embeddings)


def _read_embeddings(reply: generation_pb2.EmbedResponse) -> Array:
    return np.frombuffer(reply.data, "<f4").astype(np.float32).reshape(-1, reply.width)


def estimate_capture(request: generation_pb2.GenerateRequest) -> Unary[models_pb2.EstimateCaptureResponse]:
    return Unary(methods.ESTIMATE_CAPTURE, models_pb2.EstimateCaptureRequest(request=request), lambda reply: reply)


def put_vector(vector: Any, time_to_live: Optional[float]) -> Unary[vectors_pb2.PutVectorResponse]:
    request = vectors_pb2.PutVectorRequest(f32=to_vector(vector).f32, time_to_live=time_to_live)
    return Unary(methods.PUT_VECTOR, request, lambda reply: reply)


def get_vector(sha256: str, without_values: bool) -> Unary[Stored]:
    request = vectors_pb2.GetVectorRequest(sha256=checked_text("sha256", sha256), without_values=without_values)
    return Unary(methods.GET_VECTOR, request, read_stored)


def delete_vector(sha256: str) -> Unary[None]:
    request = vectors_pb2.DeleteVectorRequest(sha256=checked_text("sha256", sha256))
    return Unary(methods.DELETE_VECTOR, request, lambda reply: None)


# What an option may be called: the fields of the request and of its parts.
_NOT_OPTIONS = {"model", "text", "tokens", "chat", "sampling", "stop"}


def _options(*parts: Any) -> Dict[str, str]:
    """Option name -> the part of GenerateRequest that it belongs to; "" for itself."""
    return {field.name: part for part, message in parts for field in message.DESCRIPTOR.fields
            if part or field.name not in _NOT_OPTIONS}


_GENERATE_OPTIONS = _options(("", generation_pb2.GenerateRequest), ("sampling", generation_pb2.SamplingParams),
                             ("stop", generation_pb2.StopConditions))
_FORWARD_OPTIONS = _options(("", generation_pb2.ForwardRequest))


def generate(model: str, prompt: Prompt, options: Mapping[str, Any]) -> generation_pb2.GenerateRequest:
    request = generation_pb2.GenerateRequest(model=model)
    set_prompt(request, prompt)
    for name, value in options.items():
        if name not in _GENERATE_OPTIONS:
            raise TypeError(f"generate() has no option {name!r}")
        part = _GENERATE_OPTIONS[name]
        if value is not None:
            set_field(getattr(request, part) if part else request, name, value)
    return request


def forward(model: str, prompt: Prompt, options: Mapping[str, Any]) -> generation_pb2.ForwardRequest:
    request = generation_pb2.ForwardRequest(model=model)
    set_prompt(request, prompt)
    for name, value in options.items():
        if name not in _FORWARD_OPTIONS:
            raise TypeError(f"forward() has no option {name!r}")
        set_field(request, name, value)
    return request


def cached_run(model: str, prompt: Prompt, capture: CaptureSpec,
               options: Mapping[str, Any]) -> generation_pb2.GenerateRequest:
    """A run whose rows are wanted: of the prompt alone unless tokens are asked for."""
    return generate(model, prompt, {"max_tokens": 0, **options, "capture": capture})


def cache_capture(names: HookNames, hooks: Hooks, layers: Layers, rows: Optional[RowSelector], dtype: str,
                  checks: bool) -> CaptureSpec:
    """The hooks, and the logits."""
    wanted: Hooks = hooks if isinstance(hooks, str) or "logits" in hooks else [*hooks, "logits"]
    return make_capture(names.selectors(wanted, layers), rows, dtype, checks)


def derived_capture(specs: Sequence[derived_pb2.DerivedSpec], rows: Optional[RowSelector]) -> CaptureSpec:
    return CaptureSpec(rows=prompt_rows() if rows is None else rows, derived=specs)
