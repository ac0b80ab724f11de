"""Text and residual activations of language models, from a headrace server."""
import headrace.fork_support  # isort: skip  (before gRPC)

from headrace import interventions
from headrace.cache import ActivationCache, RowTable, VerificationError
from headrace.client import Client
from headrace.derived import Attribution, LogitLens
from headrace.errors import (
    DataLossError,
    FieldViolation,
    HeadraceError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    ResourceExhaustedError,
    StoppedError,
    UnavailableError,
)
from headrace.events import ChoiceEnd, Derived, End, Event, EventStream, Header, PromptLogprobs, Token

__all__ = [
    "ActivationCache", "Attribution", "ChoiceEnd", "Client", "DataLossError", "End", "Event", "EventStream", "FieldViolation",
    "Header", "HeadraceError", "InternalError", "InvalidArgumentError", "LogitLens", "NotFoundError", "PromptLogprobs",
    "ResourceExhaustedError", "RowTable", "StoppedError", "Token", "UnavailableError", "VerificationError",
]
__version__ = "0.1.0"
