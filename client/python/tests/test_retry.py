"""When a failed call is made again, by both clients, and what errors carry."""
import asyncio
import pathlib
import sys
import threading
import time

import grpc
import pytest
from google.rpc import error_details_pb2

import headrace
from headrace.retry import Attempts

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from failing_server import Failure, retry_info, serving  # noqa: E402  pylint: disable=wrong-import-position

UNAVAILABLE = Failure(grpc.StatusCode.UNAVAILABLE)
QUICK = headrace.RetryPolicy(initial_delay=0.001)


@pytest.fixture(scope="module")
def told():
    with serving() as server:
        yield server


class Sync:
    """Calls of one client; Aio has the same ones of the other."""

    def __init__(self, address, **options):
        self.client = headrace.Client(address, **options)

    def model(self):
        return self.client.get_model().name

    def events(self):
        return list(self.client.generate("a"))

    def close(self):
        self.client.close()


class Aio:
    def __init__(self, address, **options):
        self.loop = asyncio.new_event_loop()
        self.client = headrace.aio.Client(address, **options)

    def model(self):
        return self.loop.run_until_complete(self.client.get_model()).name

    def events(self):
        async def read():
            return [event async for event in self.client.generate("a")]

        return self.loop.run_until_complete(read())

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


@pytest.fixture(params=[Sync, Aio])
def make(request, told):
    """make(answers, **client options) -> (client, server)"""
    opened = []

    def run(answers, **options):
        address, server = told
        server.answers, server.timeouts = list(answers), []
        opened.append(request.param(address, **{"retry": QUICK, **options}))
        return opened[-1], server

    yield run
    for client in opened:
        client.close()


@pytest.mark.parametrize("failure", [UNAVAILABLE, Failure(grpc.StatusCode.UNAVAILABLE, retry_info(0.002)),
                                     Failure(grpc.StatusCode.RESOURCE_EXHAUSTED, retry_info(0.002))])
def test_a_server_that_is_full_or_away_is_asked_again(make, failure):
    client, server = make([failure, failure])
    assert client.model() == "told" and len(server.timeouts) == 3
    server.answers = [failure, failure]
    assert [type(event) for event in client.events()] == [headrace.Header, headrace.Token, headrace.End]
    assert len(server.timeouts) == 6


@pytest.mark.parametrize("failure, error", [
    (Failure(grpc.StatusCode.RESOURCE_EXHAUSTED), headrace.ResourceExhaustedError),
    (Failure(grpc.StatusCode.INVALID_ARGUMENT), headrace.InvalidArgumentError),
    (Failure(grpc.StatusCode.INTERNAL, retry_info(0.001)), headrace.InternalError),
    (Failure(grpc.StatusCode.UNAVAILABLE, retry_info(3600)), headrace.UnavailableError),
])
def test_nothing_else_is(make, failure, error):
    client, server = make([failure])
    with pytest.raises(error):
        client.model()
    server.answers = [failure]
    with pytest.raises(error):
        client.events()
    assert len(server.timeouts) == 2


@pytest.mark.parametrize("events", [1, 2])
def test_what_was_delivered_is_not_delivered_twice(make, events):
    client, server = make([Failure(grpc.StatusCode.UNAVAILABLE, retry_info(0.001), events=events)])
    with pytest.raises(headrace.UnavailableError):
        client.events()
    assert len(server.timeouts) == 1


def test_attempts_come_to_an_end(make):
    client, server = make([UNAVAILABLE] * 9, retry=headrace.RetryPolicy(max_attempts=3, initial_delay=0.001))
    with pytest.raises(headrace.UnavailableError) as caught:
        client.model()
    assert len(server.timeouts) == 3 and caught.value.__context__ is None
    with pytest.raises(headrace.UnavailableError):
        client.events()
    assert len(server.timeouts) == 6


def test_the_servers_delay_is_waited_for(make):
    client, server = make([Failure(grpc.StatusCode.UNAVAILABLE, retry_info(0.3))])
    start = time.monotonic()
    client.model()
    assert time.monotonic() - start >= 0.3


def test_the_timeout_bounds_all_attempts(make, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    attempts = Attempts(headrace.RetryPolicy(initial_delay=1), timeout=10)
    away = headrace.UnavailableError("", grpc.StatusCode.UNAVAILABLE)
    assert attempts.begin() == 10
    now[0] = 104
    attempts.pause(away)
    assert attempts.begin() == 6
    now[0] = 109
    # A pause that would outlast it is not made.
    with pytest.raises(headrace.UnavailableError):
        attempts.pause(away)
    now[0] = 110
    with pytest.raises(headrace.StoppedError, match="DEADLINE_EXCEEDED"):
        attempts.begin()
    monkeypatch.undo()
    client, server = make([], timeout=5)
    client.model()
    client.events()
    assert all(0 < timeout < 6 for timeout in server.timeouts)


def test_pauses_grow_and_vary():
    error = headrace.UnavailableError("", grpc.StatusCode.UNAVAILABLE)
    for policy in (headrace.RetryPolicy(), headrace.RetryPolicy(initial_delay=1.0)):
        attempts = Attempts(policy, None)
        for doubled in range(policy.max_attempts - 1):
            assert attempts.begin() is None
            assert 0.8 <= attempts.pause(error) / (policy.initial_delay * 2**doubled) <= 1.2
        attempts.begin()
        with pytest.raises(headrace.UnavailableError):
            attempts.pause(error)
    for bad in ({"max_attempts": 0}, {"initial_delay": 0}, {"max_delay": -1}):
        with pytest.raises(ValueError):
            headrace.RetryPolicy(**bad)


def test_errors_carry_what_the_server_added(make):
    bad = error_details_pb2.BadRequest(field_violations=[
        error_details_pb2.BadRequest.FieldViolation(field="sampling.top_p", description="2 is above 1")])
    quota = error_details_pb2.QuotaFailure(violations=[
        error_details_pb2.QuotaFailure.Violation(subject="capture", description="9 bytes of 8")])
    resource = error_details_pb2.ResourceInfo(resource_type="model", resource_name="other")
    client, _ = make([Failure(grpc.StatusCode.NOT_FOUND, bad, quota, resource, retry_info(1.5))])

    with pytest.raises(headrace.NotFoundError, match="told so\n  sampling.top_p: 2 is above 1") as caught:
        client.model()
    error = caught.value
    assert error.code == grpc.StatusCode.NOT_FOUND and error.retry_delay == 1.5
    assert error.field_violations == [headrace.FieldViolation("sampling.top_p", "2 is above 1")]
    assert error.quota_violations == [headrace.QuotaViolation("capture", "9 bytes of 8")]
    assert error.resource == headrace.Resource("model", "other")


FAMILIES = {
    "INVALID_ARGUMENT": headrace.InvalidArgumentError, "OUT_OF_RANGE": headrace.InvalidArgumentError,
    "FAILED_PRECONDITION": headrace.InvalidArgumentError, "NOT_FOUND": headrace.NotFoundError,
    "UNIMPLEMENTED": headrace.NotFoundError, "UNAUTHENTICATED": headrace.AccessError,
    "PERMISSION_DENIED": headrace.AccessError, "RESOURCE_EXHAUSTED": headrace.ResourceExhaustedError,
    "UNAVAILABLE": headrace.UnavailableError, "CANCELLED": headrace.StoppedError,
    "DEADLINE_EXCEEDED": headrace.StoppedError, "DATA_LOSS": headrace.DataLossError,
    "INTERNAL": headrace.InternalError, "UNKNOWN": headrace.InternalError, "ABORTED": headrace.InternalError,
    "ALREADY_EXISTS": headrace.InternalError,
}


def test_every_status_has_its_family(make):
    client, server = make([], retry=headrace.RetryPolicy(max_attempts=1))
    for code in grpc.StatusCode:
        if code is grpc.StatusCode.OK:
            continue
        server.answers = [Failure(code)]
        with pytest.raises(FAMILIES[code.name]) as caught:
            client.model()
        assert caught.value.code == code and type(caught.value) is FAMILIES[code.name]


def test_closing_a_stream_ends_its_pause(told):
    address, server = told
    server.answers = [Failure(grpc.StatusCode.UNAVAILABLE, retry_info(50))]
    with headrace.Client(address) as client:
        stream = client.generate("a")
        closer = threading.Timer(0.1, stream.close)
        closer.start()
        start = time.monotonic()
        assert list(stream) == [] and time.monotonic() - start < 20
        closer.join()
