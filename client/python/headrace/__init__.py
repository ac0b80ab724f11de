"""Text and residual activations of language models, from a headrace server."""
from headrace.cache import ActivationCache, RowTable, VerificationError
from headrace.client import Client
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
from headrace.events import ChoiceEnd, End, Event, Header, PromptLogprobs, Token

__all__ = [
    "ActivationCache", "ChoiceEnd", "Client", "DataLossError", "End", "Event", "FieldViolation", "Header",
    "HeadraceError", "InternalError", "InvalidArgumentError", "NotFoundError", "PromptLogprobs",
    "ResourceExhaustedError", "RowTable", "StoppedError", "Token", "UnavailableError", "VerificationError",
]
__version__ = "0.1.0"
