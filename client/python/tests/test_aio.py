"""headrace.aio.Client against a running server: the same as headrace.Client, and
calls that end when nobody reads them."""
import asyncio
import gc
import inspect

import numpy as np
import pytest

import headrace

TOKENS = [75, 104, 111, 20, 31]
OPTIONS = {"max_tokens": 6, "temperature": 0, "ignore_eos": True}


@pytest.fixture
def run(address):
    """run(f) awaits f(client) in a loop of its own."""

    def in_loop(use, **options):
        async def main():
            async with headrace.aio.Client(address, **options) as client:
                return await use(client)

        return asyncio.run(main())

    return in_loop


def test_both_clients_have_the_same_methods():
    def methods(client):
        return {name: [(p.name, p.kind, p.default, p.annotation) for p in inspect.signature(value).parameters.values()]
                for name, value in vars(client).items()
                if callable(value) and (name == "__init__" or not name.startswith("_"))}

    assert methods(headrace.Client) == methods(headrace.aio.Client)


def test_both_clients_give_the_same(client, run):
    messages = [{"role": "user", "content": "Hello"}]

    async def use(aio):
        return await asyncio.gather(
            aio.generate_text("hello", **OPTIONS), aio.chat(messages, **OPTIONS), aio.apply_chat_template(messages),
            aio.tokenize("Hello, w\u00f6rld"), aio.detokenize(TOKENS), aio.list_hook_points(), aio.get_model(),
            aio.list_models(), aio.estimate_capture(TOKENS))

    assert run(use) == [
        client.generate_text("hello", **OPTIONS), client.chat(messages, **OPTIONS),
        client.apply_chat_template(messages), client.tokenize("Hello, w\u00f6rld"), client.detokenize(TOKENS),
        client.list_hook_points(), client.get_model(), client.list_models(), client.estimate_capture(TOKENS)]


def test_both_clients_give_the_same_arrays(client, run):
    hooks = ["resid_pre", "attn_out", "resid_mid"]

    async def use(aio):
        logits, cache = await aio.run_with_cache(TOKENS, hooks=hooks)
        return (logits, cache, await aio.embed(["a", TOKENS]), await aio.logit_lens(TOKENS, top_k=2),
                await aio.logit_attrs(TOKENS, [65]), await cache.logit_attrs([65]))

    logits, cache, embedded, lens, attribution, of_cache = run(use)
    expected_logits, expected = client.run_with_cache(TOKENS, hooks=hooks)
    assert list(cache) == list(expected) and cache.verify() == expected.verify()
    np.testing.assert_array_equal(logits, expected_logits)
    for name in cache:
        np.testing.assert_array_equal(cache[name], expected[name])
    np.testing.assert_array_equal(embedded, client.embed(["a", TOKENS]))
    np.testing.assert_array_equal(lens.ids, client.logit_lens(TOKENS, top_k=2).ids)
    np.testing.assert_array_equal(attribution.values, client.logit_attrs(TOKENS, [65]).values)
    np.testing.assert_array_equal(of_cache.values, attribution.values)


def test_events_come_in_order(run):
    async def use(aio):
        generated = [event async for event in aio.generate(TOKENS, **OPTIONS)]
        forward = [event async for event in aio.forward(TOKENS, capture=headrace.capture(["resid_post"], layers=[0]))]
        return generated, forward

    generated, forward = run(use)
    assert isinstance(generated[0], headrace.Header) and isinstance(generated[-1], headrace.End)
    assert sum(isinstance(event, headrace.Token) for event in generated) == 6
    assert [type(event) for event in forward] == [headrace.Header, headrace.ActivationChunk, headrace.End]


async def until_cancelled(call):
    while not call.done():
        await asyncio.sleep(0)
    return call.cancelled()


@pytest.mark.parametrize("read", [0, 1, 5])
def test_closing_a_stream_cancels_the_call(run, read):
    async def use(aio):
        async with aio.generate(TOKENS, temperature=0, ignore_eos=True) as events:
            for _ in range(read):
                await events.__anext__()
            call = events._call
        assert [event async for event in events] == []
        return await asyncio.wait_for(until_cancelled(call), 30)

    assert run(use)


def test_leaving_a_stream_cancels_the_call(run):
    async def use(aio):
        events = aio.generate(TOKENS, temperature=0, ignore_eos=True)
        call = events._call
        async for _ in events:
            break
        del events, _
        gc.collect()
        return await asyncio.wait_for(until_cancelled(call), 30)

    assert run(use)


def test_cancelling_the_task_that_reads_cancels_the_call(run):
    async def use(aio):
        events = aio.generate(TOKENS, temperature=0, ignore_eos=True)
        started = asyncio.Event()

        async def read():
            async for _ in events:
                started.set()

        task = asyncio.create_task(read())
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await asyncio.wait_for(until_cancelled(events._call), 30)

    assert run(use)


def test_another_task_may_close_a_stream(run):
    async def use(aio):
        events = aio.generate(TOKENS, temperature=0, ignore_eos=True)

        async def read():
            return [event async for event in events]

        task = asyncio.create_task(read())
        await asyncio.sleep(0)
        events.close()
        return await asyncio.wait_for(task, 30)

    assert all(isinstance(event, (headrace.Header, headrace.Token)) for event in run(use))


def test_errors_are_those_of_the_other_client(run):
    async def use(aio):
        with pytest.raises(headrace.InvalidArgumentError) as caught:
            await aio.generate_text(TOKENS, top_p=2.0, min_p=-1.0)
        assert {v.field for v in caught.value.field_violations} == {"sampling.top_p", "sampling.min_p"}
        with pytest.raises(ValueError, match="resid_poost"):
            await aio.run_with_cache(TOKENS, hooks=["resid_poost"])
        with pytest.raises(TypeError, match="max_tokns"):
            await aio.generate_text(TOKENS, max_tokns=3)
        await aio.close()
        with pytest.raises(ValueError, match="the client is closed"):
            await aio.tokenize("a")

    run(use)


def test_a_timeout_ends_a_call(run):
    async def use(aio):
        with pytest.raises(headrace.StoppedError, match="DEADLINE_EXCEEDED"):
            await aio.generate_text(TOKENS, ignore_eos=True)

    run(use, timeout=0.3)


def test_many_calls_run_at_once(run):
    async def use(aio):
        return await asyncio.gather(*(aio.generate_text(TOKENS, **OPTIONS) for _ in range(16)))

    assert len(set(run(use))) == 1
