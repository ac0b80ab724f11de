"""The client: one channel to one server."""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

import grpc
import numpy as np

from headrace import errors
from headrace.cache import ActivationCache, CacheBuilder
from headrace.events import ActivationChunk, End, Event, Token, ChoiceEnd, unwrap
from headrace.hooks import HookNames, Layers
from headrace.v1 import activations_pb2, generation_pb2, inference_pb2_grpc, models_pb2

Prompt = Union[str, Sequence[int], Sequence[Dict[str, Any]]]

_SAMPLING = {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
             "frequency_penalty", "logit_bias", "allowed_token_ids", "seed", "n"}
_STOP = {"max_tokens", "min_tokens", "stop_strings", "include_stop_string", "stop_token_ids", "ignore_eos",
         "time_limit"}
_REQUEST = {"add_special_tokens", "parse_special", "skip_special_tokens", "priority", "client_request_id"}
_DTYPES = {"f32": activations_pb2.WIRE_DTYPE_F32, "bf16": activations_pb2.WIRE_DTYPE_BF16}


class Client:
    """A client of the server at `address` ("localhost:50051").

    Thread-safe. Use it as a context manager, or call close(). After a fork the
    child opens a channel of its own.
    """

    def __init__(self, address: str, *, model: str = "", timeout: Optional[float] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None) -> None:
        self._address = _checked("address", address)
        self._model = _checked("model", model)
        self._timeout = timeout
        self._credentials = credentials
        self._hook_names: Optional[HookNames] = None
        self._connect()

    def _connect(self) -> None:
        options: List[Tuple[str, int]] = []
        host = self._address.rsplit(":", 1)[0]
        if host in ("localhost", "[::1]") or host.startswith("127."):
            options.append(("grpc.enable_http_proxy", 0))
        if self._credentials is None:
            self._channel = grpc.insecure_channel(self._address, options)
        else:
            self._channel = grpc.secure_channel(self._address, self._credentials, options)
        self._pid = os.getpid()
        self._inference = inference_pb2_grpc.InferenceServiceStub(self._channel)
        self._models = inference_pb2_grpc.ModelServiceStub(self._channel)

    def _after_fork(self) -> None:
        if self._pid != os.getpid():
            self._connect()

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Any, request: Any) -> Any:
        try:
            return method(request, timeout=self._timeout)
        except grpc.RpcError as error:
            raise errors.from_rpc_error(error) from None

    def get_model(self) -> models_pb2.Model:
        """What the server serves."""
        self._after_fork()
        return self._call(self._models.GetModel, models_pb2.GetModelRequest(model=self._model)).model

    def list_hook_points(self) -> List[models_pb2.HookPointInfo]:
        self._after_fork()
        request = models_pb2.ListHookPointsRequest(model=self._model)
        return list(self._call(self._models.ListHookPoints, request).hooks)

    def tokenize(self, text: str, *, add_special_tokens: Optional[bool] = None,
                 parse_special: bool = False) -> List[int]:
        """Exactly the ids that generate() would run."""
        self._after_fork()
        request = generation_pb2.TokenizeRequest(model=self._model, texts=[_checked("text", text).encode()],
                                                 add_special_tokens=add_special_tokens, parse_special=parse_special)
        return list(self._call(self._inference.Tokenize, request).results[0].ids)

    def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        self._after_fork()
        request = generation_pb2.DetokenizeRequest(model=self._model, ids=ids, skip_special_tokens=skip_special_tokens)
        return self._call(self._inference.Detokenize, request).text

    def generate(self, prompt: Prompt, **options: Any) -> Iterator[Event]:
        """Events of one call, as they come: Header, Token…, ChoiceEnd, End.

        `prompt` is text, token ids, or chat messages ({"role", "content"}).
        Options are the fields of SamplingParams, StopConditions and
        GenerateRequest by name, and `capture`, `context_extension`, `logprobs`,
        `cache` as messages. Closing the iterator cancels the call.
        """
        self._after_fork()
        return self._stream(self._request(prompt, options))

    def generate_text(self, prompt: Prompt, **options: Any) -> str:
        """The text of the first choice."""
        return "".join(event.text for event in self.generate(prompt, **options)
                       if isinstance(event, (Token, ChoiceEnd)) and event.choice == 0)

    def run_with_cache(self, prompt: Prompt, *, hooks: Sequence[str] = ("resid_post",), layers: Layers = "all",
                       rows: Optional[activations_pb2.RowSelector] = None, dtype: str = "f32",
                       checks: bool = False, **options: Any) -> Tuple[np.ndarray, ActivationCache]:
        """Logits and activations of a prompt (and, with max_tokens, of what follows).

        Returns logits [rows, vocab_size] float32 and the cache. `rows` selects
        rows; every prompt row when it is None. max_tokens is 0 by default: no
        sampling.
        """
        self._after_fork()
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype!r}; it is one of {', '.join(_DTYPES)}")
        if self._hook_names is None:
            self._hook_names = HookNames(self.list_hook_points())
        names = self._hook_names
        if rows is None:
            rows = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True))
        wanted = list(dict.fromkeys([*hooks, "logits"]))
        options.setdefault("max_tokens", 0)
        options["capture"] = activations_pb2.CaptureSpec(hooks=names.selectors(wanted, layers), rows=rows,
                                                         dtype=_DTYPES[dtype], checks=checks)
        builder = CacheBuilder(names)
        end = None
        for event in self._stream(self._request(prompt, options)):
            if isinstance(event, ActivationChunk):
                builder.add(event)
            elif isinstance(event, End):
                end = event
        cache = builder.build(end.checks if checks and end is not None else None)
        return cache["logits"], cache

    def _stream(self, request: generation_pb2.GenerateRequest) -> Iterator[Event]:
        call = self._inference.Generate(request, timeout=self._timeout)
        return _events(call)

    def _request(self, prompt: Prompt, options: Dict[str, Any]) -> generation_pb2.GenerateRequest:
        request = generation_pb2.GenerateRequest(model=self._model)
        _set_prompt(request, prompt)
        for name, value in options.items():
            if value is None:
                continue
            if name in _SAMPLING:
                _set(request.sampling, name, value)
            elif name in _STOP:
                if name == "stop_strings":
                    value = [_checked(f"stop_strings[{i}]", text) for i, text in enumerate(value)]
                _set(request.stop, name, value)
            elif name in _REQUEST:
                _set(request, name, value)
            elif name in ("capture", "context_extension", "logprobs", "cache"):
                getattr(request, name).CopyFrom(value)
            else:
                raise TypeError(f"generate() has no option {name!r}")
        return request


def _events(call: Any) -> Iterator[Event]:
    """The events of a call that is running already; cancels it when closed."""
    try:
        for response in call:
            yield unwrap(response)
    except grpc.RpcError as error:
        raise errors.from_rpc_error(error) from None
    finally:
        call.cancel()


def _checked(name: str, text: str) -> str:
    """Refuses what UTF-8 cannot carry, before any call."""
    for position, character in enumerate(text):
        if 0xD800 <= ord(character) <= 0xDFFF:
            raise ValueError(f"{name} holds a lone surrogate (U+{ord(character):04X}) at position {position}")
    return text


def _set(message: Any, name: str, value: Any) -> None:
    descriptor = message.DESCRIPTOR.fields_by_name[name]
    if descriptor.label != descriptor.LABEL_REPEATED:
        setattr(message, name, value)
    elif isinstance(value, dict):
        getattr(message, name).update(value)
    else:
        getattr(message, name).extend(value)


def _set_prompt(request: generation_pb2.GenerateRequest, prompt: Prompt) -> None:
    if isinstance(prompt, str):
        request.text = _checked("prompt", prompt)
    elif prompt and isinstance(prompt[0], dict):
        for i, message in enumerate(prompt):
            content = _checked(f"prompt[{i}].content", message["content"])
            request.chat.messages.add(role=message["role"], content=content)
    else:
        request.tokens.SetInParent()
        request.tokens.ids.extend(int(token) for token in prompt)
