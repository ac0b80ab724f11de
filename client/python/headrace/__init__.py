"""Text and residual activations of language models, from a headrace server."""
import headrace.fork_support  # isort: skip  (before gRPC)

from headrace import aio, interventions
from headrace.cache import ActivationCache, RowTable, VerificationError
from headrace.client import Client
from headrace.derived import Attribution, LogitLens
from headrace.errors import (
    AccessError,
    DataLossError,
    FieldViolation,
    HeadraceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    QuotaViolation,
    Resource,
    ResourceExhaustedError,
    StoppedError,
    UnavailableError,
)
from headrace.event_stream import EventStream
from headrace.events import ActivationChunk, ChoiceEnd, Derived, End, Event, Header, PromptLogprobs, Token
from headrace.harvest import Batch, Harvest, HarvestState
from headrace.prompts import Chat, Prompt, make_chat
from headrace.requests import ChatPrompt
from headrace.retry import RetryPolicy
from headrace.selection import CaptureSpec, RowSelector, capture, rows

__all__ = [
    "AccessError", "ActivationCache", "ActivationChunk", "Attribution", "Batch", "CaptureSpec", "Chat", "ChatPrompt",
    "ChoiceEnd", "Client", "DataLossError", "Derived", "End", "Event", "EventStream", "FieldViolation", "Harvest", "HarvestState", "Header",
    "HeadraceError", "InternalError", "InvalidArgumentError", "LogitLens", "NotFoundError", "Prompt",
    "PromptLogprobs", "QuotaViolation", "Resource", "ResourceExhaustedError", "RetryPolicy", "RowSelector",
    "RowTable", "StoppedError", "Token", "UnavailableError", "VerificationError", "aio", "capture", "interventions",
    "make_chat", "rows",
]
__version__ = "0.1.0"
