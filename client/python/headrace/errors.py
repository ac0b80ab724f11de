"""One exception class per family of gRPC status, with what the server added."""
from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Type

import grpc
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True)
class FieldViolation:
    """A field that was wrong: `field` as in the request, "sampling.top_p"."""

    field: str
    description: str


class HeadraceError(Exception):
    """A call failed. `code` is the gRPC status code."""

    def __init__(self, message: str, code: grpc.StatusCode,
                 field_violations: Optional[List[FieldViolation]] = None,
                 retry_delay: Optional[float] = None) -> None:
        self.code = code
        self.field_violations = field_violations or []
        self.retry_delay = retry_delay  # seconds; None when the server gave none
        lines = [message] + [f"  {v.field}: {v.description}" for v in self.field_violations]
        super().__init__("\n".join(lines))


class InvalidArgumentError(HeadraceError, ValueError):
    """The request was wrong: field_violations names every field."""


class NotFoundError(HeadraceError):
    """No such model, or no such method on this server."""


class ResourceExhaustedError(HeadraceError):
    """The server is full, or the reply would be too large: see retry_delay."""


class UnavailableError(HeadraceError):
    """The server cannot be reached, or is draining: see retry_delay."""


class StoppedError(HeadraceError):
    """The call was cancelled, or its deadline passed."""


class DataLossError(HeadraceError):
    """What arrived is not what was sent."""


class InternalError(HeadraceError):
    """A fault of the server."""


_FAMILIES: Dict[grpc.StatusCode, Type[HeadraceError]] = {
    grpc.StatusCode.INVALID_ARGUMENT: InvalidArgumentError,
    grpc.StatusCode.OUT_OF_RANGE: InvalidArgumentError,
    grpc.StatusCode.FAILED_PRECONDITION: InvalidArgumentError,
    grpc.StatusCode.NOT_FOUND: NotFoundError,
    grpc.StatusCode.UNIMPLEMENTED: NotFoundError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.CANCELLED: StoppedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoppedError,
    grpc.StatusCode.DATA_LOSS: DataLossError,
}


def from_rpc_error(error: grpc.RpcError) -> HeadraceError:
    """The exception of a failed call, with its google.rpc details."""
    code = error.code()
    violations: List[FieldViolation] = []
    retry_delay: Optional[float] = None
    for key, value in error.trailing_metadata() or ():
        if key != "grpc-status-details-bin":
            continue
        status = status_pb2.Status()
        status.ParseFromString(value)
        for detail in status.details:
            if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
                bad = error_details_pb2.BadRequest()
                detail.Unpack(bad)
                violations += [FieldViolation(v.field, v.description) for v in bad.field_violations]
            elif detail.Is(error_details_pb2.RetryInfo.DESCRIPTOR):
                retry = error_details_pb2.RetryInfo()
                detail.Unpack(retry)
                retry_delay = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
    family = _FAMILIES.get(code, InternalError)
    return family(f"{code.name}: {error.details()}", code, violations, retry_delay)
