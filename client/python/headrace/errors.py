"""One exception class per family of gRPC status, with what the server added."""
from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, List, Optional, Type

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2


@dataclass(frozen=True)
class FieldViolation:
    """A field that was wrong: `field` as in the request, "sampling.top_p"."""

    field: str
    description: str


@dataclass(frozen=True)
class Resource:
    """What was not found: `type` "model", `name` as it was asked for."""

    type: str
    name: str


@dataclass(frozen=True)
class QuotaViolation:
    """A limit that was passed, and by what."""

    subject: str
    description: str


@dataclass
class Details:
    """What a server adds to a status (google.rpc)."""

    field_violations: List[FieldViolation] = field(default_factory=list)
    quota_violations: List[QuotaViolation] = field(default_factory=list)
    resource: Optional[Resource] = None
    retry_delay: Optional[float] = None  # seconds


class HeadraceError(Exception):
    """A call failed. `code` is the gRPC status code."""

    def __init__(self, message: str, code: grpc.StatusCode, details: Optional[Details] = None) -> None:
        details = details or Details()
        self.code = code
        self.field_violations = details.field_violations
        self.quota_violations = details.quota_violations
        self.resource = details.resource
        self.retry_delay = details.retry_delay  # seconds; None when the server gave none
        lines = [message] + [f"  {v.field}: {v.description}" for v in self.field_violations]
        super().__init__("\n".join(lines))


class InvalidArgumentError(HeadraceError, ValueError):
    """The request was wrong: field_violations names every field."""


class NotFoundError(HeadraceError):
    """No such model, or no such method on this server."""


class AccessError(HeadraceError):
    """The server does not know this client, or does not let it do this."""


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
    grpc.StatusCode.UNAUTHENTICATED: AccessError,
    grpc.StatusCode.PERMISSION_DENIED: AccessError,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhaustedError,
    grpc.StatusCode.UNAVAILABLE: UnavailableError,
    grpc.StatusCode.CANCELLED: StoppedError,
    grpc.StatusCode.DEADLINE_EXCEEDED: StoppedError,
    grpc.StatusCode.DATA_LOSS: DataLossError,
}


def from_rpc_error(error: grpc.RpcError) -> HeadraceError:
    """The exception of a failed call, with its google.rpc details."""
    code = error.code()
    found = Details()
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status = status_pb2.Status()
            status.ParseFromString(value)
            for packed in status.details:
                _add_detail(found, packed)
    family = _FAMILIES.get(code, InternalError)
    return family(f"{code.name}: {error.details()}", code, found)


def _add_detail(found: Details, packed: any_pb2.Any) -> None:
    bad, quota = error_details_pb2.BadRequest(), error_details_pb2.QuotaFailure()
    resource, retry = error_details_pb2.ResourceInfo(), error_details_pb2.RetryInfo()
    if packed.Unpack(bad):
        found.field_violations += [FieldViolation(v.field, v.description) for v in bad.field_violations]
    elif packed.Unpack(quota):
        found.quota_violations += [QuotaViolation(v.subject, v.description) for v in quota.violations]
    elif packed.Unpack(resource):
        found.resource = Resource(resource.resource_type, resource.resource_name)
    elif packed.Unpack(retry):
        found.retry_delay = retry.retry_delay.seconds + retry.retry_delay.nanos * 1e-9
