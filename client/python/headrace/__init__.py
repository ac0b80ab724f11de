"""Text and residual activations of language models, from a headrace server."""
import headrace.fork_support  # isort: skip  (before gRPC)

from headrace import aio, derived, interventions
from headrace.cache import ActivationCache, RowTable, VerificationError
from headrace.client import Client
from headrace.derived import Attribution, LogitLens, Quantity
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
from headrace.selection import CaptureSpec, HookSelector, KeepRows, RowSelector, capture, hook, rows
from headrace.stored import Stored, StoredBlock

__all__ = [
    "AccessError", "ActivationCache", "ActivationChunk", "Attribution", "Batch", "CaptureSpec", "Chat", "ChatPrompt",
    "ChoiceEnd", "Client", "DataLossError", "Derived", "End", "Event", "EventStream", "FieldViolation", "Harvest", "HarvestState", "Header",
    "HeadraceError", "HookSelector", "InternalError", "InvalidArgumentError", "KeepRows", "LogitLens", "NotFoundError",
    "Prompt", "PromptLogprobs", "Quantity", "QuotaViolation", "Resource", "ResourceExhaustedError", "RetryPolicy",
    "RowSelector", "RowTable", "StoppedError", "Stored", "StoredBlock", "Token", "UnavailableError",
    "VerificationError", "aio", "capture", "derived", "hook", "interventions", "make_chat", "rows",
]
__version__ = "0.1.0"
