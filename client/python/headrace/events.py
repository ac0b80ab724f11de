"""What a stream yields: the server's messages under their own names."""
from __future__ import annotations

from typing import Union

from headrace.v1 import activations_pb2, generation_pb2

Header = generation_pb2.Header
Token = generation_pb2.Token
PromptLogprobs = generation_pb2.PromptLogprobs
ActivationChunk = activations_pb2.ActivationChunk
ChoiceEnd = generation_pb2.ChoiceEnd
End = generation_pb2.End

Event = Union[Header, Token, PromptLogprobs, ActivationChunk, ChoiceEnd, End]


def unwrap(response: generation_pb2.GenerateResponse) -> Event:
    """The one event inside a response."""
    return getattr(response, response.WhichOneof("event"))
