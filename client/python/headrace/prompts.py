"""What a model is asked to read: text, token ids, or a conversation."""
from __future__ import annotations

import json
import operator
from typing import Any, Mapping, Optional, Sequence, Union

from headrace.checks import checked_text, set_field
from headrace.v1 import generation_pb2

ChatMessage = Mapping[str, Any]
Chat = generation_pb2.Chat
Prompt = Union[str, Sequence[int], Sequence[ChatMessage], Chat]


def make_chat(messages: Sequence[ChatMessage], *, tools: Optional[Sequence[Mapping[str, Any]]] = None,
              template_kwargs: Optional[Mapping[str, Any]] = None, template: Optional[str] = None,
              add_generation_prompt: Optional[bool] = None, continue_final_message: bool = False) -> Chat:
    """A conversation as a prompt.

    A message is {"role", "content"}, with "name", "tool_calls" and
    "tool_call_id" where they apply. `tools` are definitions as OpenAI and
    transformers have them, `template_kwargs` more variables of the template,
    `template` one in place of the model's. The assistant's turn is opened
    unless `add_generation_prompt` says otherwise; `continue_final_message` ends
    the prompt inside the last message.
    """
    chat = Chat(continue_final_message=continue_final_message)
    _add_messages(chat, "messages", messages)
    set_field(chat, "add_generation_prompt", add_generation_prompt)
    set_field(chat, "template", template)
    if tools is not None:
        chat.tools_json = json.dumps(list(tools))
    if template_kwargs is not None:
        chat.template_kwargs_json = json.dumps(dict(template_kwargs))
    return chat


def set_prompt(request: Union[generation_pb2.GenerateRequest, generation_pb2.ForwardRequest], prompt: Prompt) -> None:
    if isinstance(prompt, str):
        request.text = checked_text("prompt", prompt)
    elif isinstance(prompt, Chat):
        request.chat.CopyFrom(prompt)
    elif not _is_sequence(prompt):
        raise TypeError(f"prompt is {type(prompt).__name__}; it takes a str, token ids or messages")
    elif len(prompt) and isinstance(prompt[0], Mapping):
        _add_messages(request.chat, "prompt", prompt)
    else:
        request.tokens.CopyFrom(token_ids(prompt))


def token_ids(ids: Any) -> generation_pb2.TokenIds:
    return generation_pb2.TokenIds(ids=[operator.index(token) for token in ids])


def embed_input(where: str, value: Union[str, Sequence[int]]) -> generation_pb2.EmbedInput:
    if isinstance(value, str):
        return generation_pb2.EmbedInput(text=checked_text(where, value))
    if not _is_sequence(value):
        raise TypeError(f"{where} is {type(value).__name__}; it takes a str or token ids")
    return generation_pb2.EmbedInput(tokens=token_ids(value))


def _is_sequence(value: Any) -> bool:
    # Bytes are numbers too, and would be taken for token ids.
    return hasattr(value, "__getitem__") and not isinstance(value, (bytes, bytearray, memoryview, Mapping))


def _add_messages(chat: Chat, where: str, messages: Any) -> None:
    for i, message in enumerate(messages):
        added = chat.messages.add()
        for key, value in message.items():
            if key == "tool_calls":
                added.tool_calls_json = json.dumps(value)
            elif key in ("role", "content", "name", "tool_call_id"):
                setattr(added, key, checked_text(f"{where}[{i}].{key}", value))
            else:
                raise ValueError(f"{where}[{i}] has no field {key!r}")
