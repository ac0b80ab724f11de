"""The package against a running server."""
import numpy as np
import pytest

import headrace

TOKENS = [75, 104, 111, 20, 31]


def test_generate_yields_events_in_order(client):
    events = list(client.generate(TOKENS, max_tokens=4, temperature=0, ignore_eos=True))

    assert isinstance(events[0], headrace.Header)
    assert [e.index for e in events if isinstance(e, headrace.Token)] == [0, 1, 2, 3]
    assert isinstance(events[-2], headrace.ChoiceEnd)
    assert isinstance(events[-1], headrace.End)
    assert events[-1].usage.generated_tokens == 4


def test_text_is_the_concatenation_of_the_events(client):
    options = dict(max_tokens=6, temperature=0, ignore_eos=True)
    text = client.generate_text("hello", **options)
    pieces = [e.text for e in client.generate("hello", **options)
              if isinstance(e, (headrace.Token, headrace.ChoiceEnd))]

    assert text == "".join(pieces)


def test_seeds_of_64_bits_come_back_exactly(client):
    for seed in (0, 2**31, 2**53 + 1, 2**64 - 1):
        header = next(iter(client.generate(TOKENS, max_tokens=1, seed=seed)))
        assert header.sampling.seed == seed


def test_run_with_cache_verifies(client):
    logits, cache = client.run_with_cache(
        TOKENS, hooks=["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"], checks=True)
    layers = client.get_model().num_hidden_layers

    assert logits.shape == (len(TOKENS), client.get_model().vocab_size)
    assert cache.verify() == 2 * layers * len(TOKENS)
    assert list(cache.rows.position) == [0, 1, 2, 3, 4]
    assert list(cache.rows.token) == TOKENS
    assert cache.rows.phase == ["prompt"] * 5
    assert cache.checks.resid_mid_failed == cache.checks.resid_post_failed == 0
    np.testing.assert_array_equal(cache["blocks.1.hook_resid_pre"], cache["blocks.0.hook_resid_post"])


def test_verify_names_the_row_that_fails(client):
    _, cache = client.run_with_cache(TOKENS, hooks=["resid_pre", "attn_out", "resid_mid"])
    cache["blocks.1.hook_attn_out"][2, 5] += 1

    with pytest.raises(headrace.VerificationError, match="position 2, dimension 5"):
        cache.verify()


def test_arrays_are_float32_writable_and_owned(client):
    _, exact = client.run_with_cache(TOKENS, hooks=["resid_post"])
    _, narrow = client.run_with_cache(TOKENS, hooks=["resid_post"], dtype="bf16")
    for cache in (exact, narrow):
        array = cache["blocks.0.hook_resid_post"]
        assert array.dtype == np.float32 and array.flags.c_contiguous
        assert array.flags.writeable and array.flags.owndata
    # Rounding to eight bits, to nearest.
    bits = exact["blocks.0.hook_resid_post"].view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    np.testing.assert_array_equal(narrow["blocks.0.hook_resid_post"].view(np.uint32), rounded)


def test_rows_of_generated_tokens_are_those_fed_back(client):
    from headrace.v1 import activations_pb2
    rows = activations_pb2.RowSelector(generated=activations_pb2.PhaseRows(all=True))
    _, cache = client.run_with_cache(TOKENS, hooks=["resid_post"], rows=rows, max_tokens=4, temperature=0,
                                     ignore_eos=True)

    assert list(cache.rows.position) == [5, 6, 7]
    assert cache.rows.phase == ["generated"] * 3


def test_every_bad_field_is_named_at_once(client):
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        client.generate_text(TOKENS, temperature=float("nan"), top_p=2.0, stop_strings=["", "ok"])

    assert {v.field for v in caught.value.field_violations} == {
        "sampling.temperature", "sampling.top_p", "stop.stop_strings[0]"}


def test_unknown_hooks_and_options_are_refused_before_any_call(client):
    with pytest.raises(ValueError, match="resid_poost"):
        client.run_with_cache(TOKENS, hooks=["resid_poost"])
    with pytest.raises(TypeError, match="max_tokns"):
        client.generate_text(TOKENS, max_tokns=3)


@pytest.mark.parametrize("call", [
    lambda c, text: c.generate_text(text),
    lambda c, text: c.generate_text([{"role": "user", "content": text}]),
    lambda c, text: c.generate_text("a", stop_strings=[text]),
    lambda c, text: c.tokenize(text),
])
def test_a_lone_surrogate_is_named_before_any_call(client, call):
    with pytest.raises(ValueError, match="lone surrogate.*position 1"):
        call(client, "a\ud83d")
    assert client.tokenize("ab")


def test_closing_an_iterator_cancels_the_call(client):
    events = client.generate(TOKENS, temperature=0, ignore_eos=True)
    next(events)
    events.close()

    assert client.generate_text(TOKENS, max_tokens=1) is not None


def test_tokens_round_trip(client):
    ids = client.tokenize("Hello, w\u00f6rld")

    assert client.detokenize(ids) == "Hello, w\u00f6rld"
