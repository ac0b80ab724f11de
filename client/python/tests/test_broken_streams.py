"""Streams that break go on where they broke, by both clients, against a running
server behind a relay that loses connections."""
import asyncio
import itertools
import pathlib
import sys

import numpy as np
import pytest

import headrace
from headrace import derived

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from breaking_proxy import breaking  # noqa: E402  pylint: disable=wrong-import-position

TOKENS = [75, 104, 111, 20, 31]
CAPTURE = headrace.capture(["resid_post", headrace.hook("attn_probs", layers=[0, 2], heads=[1, 0])], layers=[0, 2],
                           rows=headrace.rows(prompt="all", generated="all"), chunk_bytes=4096,
                           derived=[derived.norm("resid_mid"), derived.mean("resid_post", layers=[1])])
OPTIONS = {"max_tokens": 12, "min_tokens": 12, "temperature": 1, "seed": 11, "n": 2, "capture": CAPTURE,
           "logprobs": {"top_n": 2, "prompt": True}}
QUICK = headrace.RetryPolicy(initial_delay=0.001)


@pytest.fixture
def proxy(address):
    with breaking(address) as relay:
        yield relay


def generate(address, at_header=lambda: None, **options):
    with headrace.Client(address, retry=QUICK) as client, client.generate(TOKENS, **options) as stream:
        header = next(stream)
        at_header()
        return [header, *stream]


def generate_aio(address, at_header=lambda: None, **options):
    async def read():
        async with headrace.aio.Client(address, retry=QUICK) as client:
            stream = client.generate(TOKENS, **options)
            header = await stream.__anext__()
            at_header()
            return [header, *[event async for event in stream]]

    return asyncio.run(read())


def content(events):
    """What a stream says, however its rows are cut into chunks."""
    rows, rest = {}, []
    for event in events:
        if isinstance(event, (headrace.ActivationChunk, headrace.Derived)):
            derived_rows = isinstance(event, headrace.Derived)
            key = (event.hook, event.layer, event.choice, event.spec if derived_rows else -1,
                   -1 if derived_rows or not event.HasField("head") else event.head)
            data = event.values if derived_rows else event.data
            for i, position in enumerate(event.positions):
                row = data[i * 4 * event.width:(i + 1) * 4 * event.width]
                rows.setdefault(key, []).append((position, row.rstrip(b"\0")))
        elif isinstance(event, (headrace.Token, headrace.PromptLogprobs, headrace.ChoiceEnd)):
            rest.append(event.SerializeToString(deterministic=True))
    return rows, sorted(rest)


@pytest.mark.parametrize("read", [generate, generate_aio])
@pytest.mark.parametrize("cuts", [[3000], [9000, 2500, 20000], [40000]])
def test_a_stream_that_breaks_is_one_stream(address, proxy, read, cuts):
    whole = generate(address, **OPTIONS)
    proxy.cuts = list(cuts)
    proxy.may_break.clear()
    events = read(proxy.address, at_header=proxy.may_break.set, **OPTIONS)

    assert proxy.broken == len(cuts)
    assert content(events) == content(whole)
    assert [type(event) for event in events].count(headrace.Header) == 1
    assert isinstance(events[0], headrace.Header) and isinstance(events[-1], headrace.End)
    numbers = [event.sequence_number for event in events
               if isinstance(event, (headrace.ActivationChunk, headrace.Derived))]
    assert numbers == list(range(len(numbers)))


def test_arrays_are_the_same(client, proxy):
    proxy.cuts = [100, 500_000, 700_000]  # the first one before any event
    _, expected = client.run_with_cache(TOKENS * 30, hooks=["resid_pre", "attn_out", "resid_mid"])
    with headrace.Client(proxy.address, retry=QUICK) as broken:
        _, cache = broken.run_with_cache(TOKENS * 30, hooks=["resid_pre", "attn_out", "resid_mid"])
        assert broken.estimate_capture(TOKENS).bytes_max
    assert proxy.broken >= 2 and list(cache) == list(expected) and cache.verify() == expected.verify()
    for name in cache:
        np.testing.assert_array_equal(cache[name], expected[name])


@pytest.mark.parametrize("taken", [0, 1, 4, 9])
def test_anybody_can_go_on(client, taken):
    request = {key: value for key, value in OPTIONS.items() if key != "seed"}
    with client.generate(TOKENS, **request) as stream:
        events = list(itertools.islice(stream, taken))
        continuation = stream.continuation
    rest = list(client.generate(TOKENS, **request, **continuation))
    seed = rest[0].sampling.seed
    assert content(events + rest) == content(list(client.generate(TOKENS, **request, seed=seed)))


def test_a_forward_pass_goes_on(client):
    whole = list(client.forward(TOKENS, capture=CAPTURE))
    with client.forward(TOKENS, capture=CAPTURE) as stream:
        events = list(itertools.islice(stream, 3))
    rest = list(client.forward(TOKENS, capture=CAPTURE, **stream.continuation))
    assert content(events + rest) == content(whole)
    with pytest.raises(headrace.InvalidArgumentError, match="resume.replay_id"):
        list(client.forward(TOKENS[1:], capture=CAPTURE, **stream.continuation))


@pytest.mark.parametrize("clock", [{"time_limit": 100}, {"capture": headrace.capture(
    ["resid_post"], policy="drop_with_gaps", chunk_bytes=4096)}])
@pytest.mark.parametrize("read", [generate, generate_aio])
def test_a_stream_that_depends_on_the_clock_ends(proxy, read, clock):
    proxy.cuts = [9000]
    proxy.may_break.clear()
    with pytest.raises(headrace.UnavailableError):
        read(proxy.address, at_header=proxy.may_break.set, **{**OPTIONS, **clock})


def test_it_gives_up_without_progress(proxy):
    proxy.cuts = [9000] + [100] * 50
    proxy.may_break.clear()
    few = headrace.RetryPolicy(initial_delay=0.001, max_attempts=3)
    with headrace.Client(proxy.address, retry=few) as client, client.generate(TOKENS, **OPTIONS) as stream:
        next(stream)
        proxy.may_break.set()
        with pytest.raises(headrace.UnavailableError):
            list(stream)
    assert len(proxy.cuts) > 30  # gRPC connects more often than calls are made
