"""The client: one channel to one server."""
from __future__ import annotations

import json
import math
import operator
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import grpc
import numpy as np

from headrace.cache import ActivationCache, CacheBuilder
from headrace.connection import Connection, Stubs
from headrace.derived import Attribution, LogitLens, make_attribution, make_lens, prompt_rows
from headrace.events import ActivationChunk, ChoiceEnd, Derived, End, EventStream, Token
from headrace.hooks import HookNames, Layers
from headrace.interventions import selector
from headrace.v1 import activations_pb2, derived_pb2, generation_pb2, models_pb2

Prompt = Union[str, Sequence[int], Sequence[Mapping[str, Any]]]

_SAMPLING = {"temperature", "top_k", "top_p", "min_p", "typical_p", "repetition_penalty", "presence_penalty",
             "frequency_penalty", "logit_bias", "allowed_token_ids", "seed", "n"}
_STOP = {"max_tokens", "min_tokens", "stop_strings", "include_stop_string", "stop_token_ids", "ignore_eos",
         "time_limit"}
_REQUEST = {"add_special_tokens", "parse_special", "skip_special_tokens", "priority", "client_request_id"}
_DTYPES = {"f32": activations_pb2.WIRE_DTYPE_F32, "bf16": activations_pb2.WIRE_DTYPE_BF16,
           "f16": activations_pb2.WIRE_DTYPE_F16, "int8": activations_pb2.WIRE_DTYPE_INT8}


class Client:
    """A client of the server at `address` ("localhost:50051").

    Thread-safe. Use it as a context manager, or call close(). Parent and child
    may both use it after a fork; with grpcio before 1.54, a fork ends the calls
    that run.
    """

    def __init__(self, address: str, *, model: str = "", timeout: Optional[float] = None,
                 credentials: Optional[grpc.ChannelCredentials] = None) -> None:
        self._address = _checked("address", address)
        self._model = _checked("model", model)
        self._timeout = _checked_timeout(timeout)
        self._credentials = credentials
        self._hook_names: Optional[HookNames] = None
        self._connection = Connection(self._open_channel)

    def _open_channel(self) -> grpc.Channel:
        options: List[Tuple[str, int]] = []
        host = self._address.rsplit(":", 1)[0]
        if host in ("localhost", "[::1]") or host.startswith("127."):
            options.append(("grpc.enable_http_proxy", 0))
        if self._credentials is None:
            return grpc.insecure_channel(self._address, options)
        return grpc.secure_channel(self._address, self._credentials, options)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, method: Callable[[Stubs], Any], request: Any) -> Any:
        call, stubs = self._connection.start(lambda stubs: method(stubs).future(request, timeout=self._timeout))
        try:
            return call.result()
        except grpc.FutureCancelledError:
            raise stubs.error(call) from None
        except grpc.RpcError as error:
            raise stubs.error(error) from None

    def get_model(self) -> models_pb2.Model:
        """What the server serves."""
        return self._call(lambda stubs: stubs.models.GetModel, models_pb2.GetModelRequest(model=self._model)).model

    def list_hook_points(self) -> List[models_pb2.HookPointInfo]:
        request = models_pb2.ListHookPointsRequest(model=self._model)
        return list(self._call(lambda stubs: stubs.models.ListHookPoints, request).hooks)

    def tokenize(self, text: str, *, add_special_tokens: Optional[bool] = None,
                 parse_special: bool = False) -> List[int]:
        """Exactly the ids that generate() would run."""
        request = generation_pb2.TokenizeRequest(model=self._model, texts=[_checked("text", text).encode()],
                                                 add_special_tokens=add_special_tokens, parse_special=parse_special)
        return list(self._call(lambda stubs: stubs.inference.Tokenize, request).results[0].ids)

    def detokenize(self, ids: Sequence[int], *, skip_special_tokens: bool = False) -> str:
        request = generation_pb2.DetokenizeRequest(model=self._model, ids=ids, skip_special_tokens=skip_special_tokens)
        return self._call(lambda stubs: stubs.inference.Detokenize, request).text

    def generate(self, prompt: Prompt, **options: Any) -> EventStream:
        """Events of one call, as they come: Header, Token…, ChoiceEnd, End.

        `prompt` is text, token ids, or chat messages ({"role", "content"}, and
        "name", "tool_calls", "tool_call_id" where they apply).
        Options are the fields of SamplingParams, StopConditions and
        GenerateRequest by name, `capture`, `context_extension`, `logprobs`,
        `cache` as messages, and `interventions` as a list of what
        headrace.interventions makes. Leaving or closing the iterator cancels the call.
        """
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
        if dtype not in _DTYPES:
            raise ValueError(f"dtype is {dtype!r}; it is one of {', '.join(_DTYPES)}")
        if self._hook_names is None:
            self._hook_names = HookNames(self.list_hook_points())
        names = self._hook_names
        if rows is None:
            rows = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True))
        wanted = hooks if isinstance(hooks, str) else list(dict.fromkeys([*hooks, "logits"]))
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

    def logit_lens(self, prompt: Prompt, *, top_k: int = 5, tokens: Sequence[int] = (), hook: str = "resid_post",
                   layers: Layers = "all", rows: Optional[activations_pb2.RowSelector] = None,
                   **options: Any) -> LogitLens:
        """What the model would predict if it stopped at each layer.

        `tokens`: ids whose log probability and rank are wanted too. `rows`:
        every prompt row when it is None.
        """
        spec = derived_pb2.DerivedSpec(logit_lens=derived_pb2.LogitLens(
            where=selector(hook, layers), top_k=top_k, token_ids=tokens))
        return make_lens(self._derive(prompt, spec, rows, options), top_k)

    def logit_attrs(self, prompt: Prompt, tokens: Sequence[int], *, contrast: Sequence[int] = (),
                    by_head: bool = False, rows: Optional[activations_pb2.RowSelector] = None,
                    **options: Any) -> Attribution:
        """Direct logit attribution: what each writer adds to the tokens' logits
        (less those of `contrast`), by attention head if asked for."""
        spec = derived_pb2.DerivedSpec(direct_logit_attribution=derived_pb2.LogitAttribution(
            token_ids=tokens, contrast_ids=contrast, by_head=by_head))
        model = self.get_model()
        return make_attribution(self._derive(prompt, spec, rows, options), len(tokens), model.num_hidden_layers,
                                model.num_attention_heads if by_head else 0)

    def _derive(self, prompt: Prompt, spec: derived_pb2.DerivedSpec, rows: Optional[activations_pb2.RowSelector],
                options: Dict[str, Any]) -> List[derived_pb2.Derived]:
        options.setdefault("max_tokens", 0)
        options["capture"] = activations_pb2.CaptureSpec(rows=rows or prompt_rows(), derived=[spec])
        return [event for event in self._stream(self._request(prompt, options)) if isinstance(event, Derived)]

    def _stream(self, request: generation_pb2.GenerateRequest) -> EventStream:
        call, stubs = self._connection.start(lambda stubs: stubs.inference.Generate(request, timeout=self._timeout))
        return EventStream(call, stubs.error)

    def _request(self, prompt: Prompt, options: Dict[str, Any]) -> generation_pb2.GenerateRequest:
        request = generation_pb2.GenerateRequest(model=self._model)
        _set_prompt(request, prompt)
        for name, value in options.items():
            if value is None:
                continue
            if name in _SAMPLING:
                _set(request.sampling, name, value)
            elif name in _STOP:
                _set(request.stop, name, value)
            elif name in _REQUEST:
                _set(request, name, value)
            elif name in ("capture", "context_extension", "logprobs", "cache"):
                getattr(request, name).CopyFrom(value)
            elif name == "interventions":
                request.interventions.extend(value)
            else:
                raise TypeError(f"generate() has no option {name!r}")
        return request


def _checked(name: str, text: str) -> str:
    """Refuses what is no text and what UTF-8 cannot carry, before any call."""
    if not isinstance(text, str):
        raise TypeError(f"{name} is {type(text).__name__}; it takes a str")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} holds a lone surrogate (U+{ord(text[error.start]):04X}) "
                         f"at position {error.start}") from None
    return text


def _checked_timeout(timeout: Optional[float]) -> Optional[float]:
    """None for one that never passes."""
    if timeout is None or timeout == math.inf:
        return None
    if not timeout > 0:
        raise ValueError(f"timeout must be above 0 seconds; is {timeout}")
    return timeout


def _set(message: Any, name: str, value: Any) -> None:
    if message.DESCRIPTOR.fields_by_name[name].label != message.DESCRIPTOR.fields_by_name[name].LABEL_REPEATED:
        setattr(message, name, _checked(name, value) if isinstance(value, str) else value)
    elif isinstance(value, Mapping):
        getattr(message, name).update(value)
    elif isinstance(value, str):
        raise TypeError(f"{name} is a string; it takes a list")
    else:
        getattr(message, name).extend(
            _checked(f"{name}[{i}]", v) if isinstance(v, str) else v for i, v in enumerate(value))


def _set_prompt(request: generation_pb2.GenerateRequest, prompt: Prompt) -> None:
    if isinstance(prompt, str):
        request.text = _checked("prompt", prompt)
    elif not hasattr(prompt, "__getitem__") or isinstance(prompt, (bytes, bytearray, memoryview, Mapping)):
        # Bytes are numbers too, and would be taken for token ids.
        raise TypeError(f"prompt is {type(prompt).__name__}; it takes a str, token ids or messages")
    elif len(prompt) and isinstance(prompt[0], Mapping):
        for i, message in enumerate(prompt):
            _set_message(request.chat.messages.add(), f"prompt[{i}]", message)
    else:
        request.tokens.SetInParent()
        request.tokens.ids.extend(operator.index(token) for token in prompt)


def _set_message(chat_message: generation_pb2.ChatMessage, where: str, message: Mapping[str, Any]) -> None:
    for key, value in message.items():
        if key == "tool_calls":
            chat_message.tool_calls_json = json.dumps(value)
        elif key in ("role", "content", "name", "tool_call_id"):
            setattr(chat_message, key, _checked(f"{where}.{key}", value))
        else:
            raise ValueError(f"{where} has no field {key!r}")
