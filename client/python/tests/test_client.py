"""The package against a running server."""
import ctypes
import gc
import io
import pathlib
import re
import threading
import warnings

import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2

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


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "int8"])
def test_arrays_are_the_callers_own(client, dtype):
    # city96/ComfyUI-GGUF#232, curt-tigges/crosslayer-coding#30
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _, cache = client.run_with_cache(TOKENS, hooks=["resid_post"], dtype=dtype)
        array = cache["blocks.0.hook_resid_post"]
        assert array.dtype == np.float32 and array.flags.c_contiguous
        assert array.flags.writeable and array.flags.owndata and array.base is None
        before = array.copy()
        array += 1
        np.testing.assert_array_equal(array, before + 1)
        file = io.BytesIO()
        np.savez(file, **cache)
        file.seek(0)
        np.testing.assert_array_equal(np.load(file)["blocks.0.hook_resid_post"], array)


def test_bf16_is_widened_exactly(client):
    _, exact = client.run_with_cache(TOKENS, hooks=["resid_post"])
    _, narrow = client.run_with_cache(TOKENS, hooks=["resid_post"], dtype="bf16")
    # Rounding to eight bits, to nearest.
    bits = exact["blocks.0.hook_resid_post"].view(np.uint32)
    rounded = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32)
    np.testing.assert_array_equal(narrow["blocks.0.hook_resid_post"].view(np.uint32), rounded)
    with pytest.raises(ValueError, match="dtype is 'int4'; it is one of f32, bf16, f16, int8"):
        client.run_with_cache(TOKENS, dtype="int4")


def resident_bytes():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path("/proc/self/status").read_text())[1]) * 1024


def test_one_array_does_not_keep_the_others(client):
    # erfanzar/EasyDeL#269
    before = resident_bytes()
    _, cache = client.run_with_cache([5] * 200, hooks=["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post"])
    total = sum(array.nbytes for array in cache.values())
    assert resident_bytes() - before > total / 2
    kept = cache["blocks.0.hook_resid_post"]
    del cache, _
    assert resident_bytes() - before < total / 4
    assert np.isfinite(kept).all()


def test_rows_of_bos_can_be_told_apart_and_left_out(client):
    # saprmarks/dictionary_learning#44
    prompt = [1, 75, 1, 104]
    _, cache = client.run_with_cache(prompt, hooks=["resid_post"])
    assert list(cache.rows.token) == prompt
    everything = cache["blocks.0.hook_resid_post"]
    rows = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True), exclude_token_ids=[1])
    _, cache = client.run_with_cache(prompt, hooks=["resid_post"], rows=rows)
    assert list(cache.rows.token) == [75, 104] and list(cache.rows.position) == [1, 3]
    np.testing.assert_array_equal(cache["blocks.0.hook_resid_post"], everything[[1, 3]])


def test_rows_of_generated_tokens_are_those_fed_back(client):
    rows = activations_pb2.RowSelector(generated=activations_pb2.PhaseRows(all=True))
    _, cache = client.run_with_cache(TOKENS, hooks=["resid_post"], rows=rows, max_tokens=4, temperature=0,
                                     ignore_eos=True)

    assert list(cache.rows.position) == [5, 6, 7]
    assert cache.rows.phase == ["generated"] * 3


def test_rows_of_several_choices_are_kept_apart(client):
    rows = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True),
                                       generated=activations_pb2.PhaseRows(all=True))
    asked = {"rows": rows, "max_tokens": 6, "temperature": 1, "seed": 3, "ignore_eos": True}
    _, several = client.run_with_cache(TOKENS, hooks=["resid_pre", "attn_out", "resid_mid"], n=3, **asked)

    assert several.verify() == client.get_model().num_hidden_layers * len(several.rows)
    assert list(several.rows.choice) == [0] * len(TOKENS) + [0] * 5 + [1] * 5 + [2] * 5
    for choice in range(3):
        mine = (several.rows.choice == choice) & (np.array(several.rows.phase) == "generated")
        assert list(several.rows.position[mine]) == list(range(len(TOKENS), len(TOKENS) + 5))
    with pytest.raises(ValueError, match="ask for n=1"):
        client.logit_lens(TOKENS, n=2, **asked)


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


@pytest.mark.parametrize("where, call", [
    ("prompt", lambda c, text: c.generate_text(text)),
    ("prompt", lambda c, text: c.run_with_cache(text)),
    (r"prompt\[0\].content", lambda c, text: c.generate_text([{"role": "user", "content": text}])),
    (r"prompt\[0\].role", lambda c, text: c.generate_text([{"role": text, "content": "a"}])),
    (r"stop_strings\[1\]", lambda c, text: c.generate_text("a", stop_strings=["b", text])),
    ("client_request_id", lambda c, text: c.generate_text("a", client_request_id=text)),
    ("text", lambda c, text: c.tokenize(text)),
    ("model", lambda c, text: headrace.Client("localhost:1", model=text)),
])
def test_a_lone_surrogate_is_named_before_any_call(client, where, call):
    # HKUDS/nanobot#4952, openai/tiktoken#541
    threads = threading.active_count()
    with pytest.raises(ValueError, match=where + " holds a lone surrogate.*position 1"):
        call(client, "a\ud83d")
    assert threading.active_count() == threads
    assert client.tokenize("ab")


def test_what_messages_cannot_carry_is_refused(client):
    with pytest.raises(ValueError, match=r"prompt\[0\] has no field 'text'"):
        client.generate_text([{"role": "user", "text": "a"}])
    with pytest.raises(TypeError, match="float"):
        client.generate_text([1.5, 2.0])
    for prompt in (b"ab", bytearray(b"ab"), None, 5, iter([1, 2]), {"role": "user", "content": "a"}):
        with pytest.raises(TypeError, match=f"prompt is {type(prompt).__name__}; it takes a str, token ids"):
            client.generate_text(prompt)
    with pytest.raises(TypeError, match=r"prompt\[0\].content is NoneType; it takes a str"):
        client.generate_text([{"role": "user", "content": None}])
    with pytest.raises(TypeError, match="text is bytes"):
        client.tokenize(b"ab")
    with pytest.raises(TypeError, match="hooks is a string, 'resid_post'"):
        client.run_with_cache(TOKENS, hooks="resid_post")
    with pytest.raises(TypeError, match="stop_strings is a string"):
        client.generate_text("a", stop_strings="ab")


def test_timeouts_are_checked():
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            headrace.Client("localhost:1", timeout=timeout)
    with headrace.Client("localhost:1", timeout=float("inf")) as client:
        with pytest.raises(headrace.UnavailableError):
            client.get_model()


def test_closing_an_iterator_cancels_the_call(client):
    for read in (0, 1, 5):
        events = client.generate(TOKENS, temperature=0, ignore_eos=True)
        for _ in range(read):
            next(events)
        call = events._call
        events.close()
        assert not call.is_active()
        assert list(events) == []


def test_dropping_an_iterator_cancels_the_call(client):
    events = client.generate(TOKENS, temperature=0, ignore_eos=True)
    call = events._call
    del events

    assert not call.is_active()
    for event in client.generate(TOKENS, temperature=0, ignore_eos=True):
        break
    assert client.generate_text(TOKENS, max_tokens=1) is not None


def test_tokens_round_trip(client):
    ids = client.tokenize("Hello, w\u00f6rld")

    assert client.detokenize(ids) == "Hello, w\u00f6rld"
