"""The package against a running server."""
import ctypes
import gc
import io
import pathlib
import re
import sys
import threading
import warnings

import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2, generation_pb2

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
    # TransformerLensOrg/TransformerLens#1648: attn_out was not what is added.
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
    for vector in ([1j], [None], ["1"]):
        with pytest.raises(TypeError, match="a vector holds real numbers"):
            client.put_vector(vector)
    with pytest.raises(TypeError, match="hooks is a string, 'resid_post'"):
        client.run_with_cache(TOKENS, hooks="resid_post")
    with pytest.raises(TypeError, match="stop_strings is a string"):
        client.generate_text("a", stop_strings="ab")


def test_timeouts_are_checked():
    for timeout in (0, -1, float("nan")):
        with pytest.raises(ValueError, match="timeout must be above 0"):
            headrace.Client("localhost:1", timeout=timeout)
    once = headrace.RetryPolicy(max_attempts=1)
    with headrace.Client("localhost:1", timeout=float("inf"), retry=once) as client:
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


def test_forward_gives_logprobs_and_rows(client):
    logits, cache = client.run_with_cache(TOKENS, layers=[0])
    events = list(client.forward(TOKENS, capture=headrace.capture(["resid_post", "logits"], layers=[0]),
                                 logprobs=generation_pb2.LogprobsOptions(prompt=True)))

    chunks = {event.hook: event for event in events if isinstance(event, headrace.ActivationChunk)}
    assert chunks[activations_pb2.HOOK_POINT_RESID_POST].data == cache["blocks.0.hook_resid_post"].tobytes()
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    expected = (shifted - np.log(np.exp(shifted).sum(-1, keepdims=True)))[range(4), TOKENS[1:]]
    got = [event for event in events if isinstance(event, headrace.PromptLogprobs)]
    assert [event.position for event in got] == [1, 2, 3, 4]
    # Float32 logarithms.
    np.testing.assert_allclose([event.token.logprob for event in got], expected, atol=5e-6)
    with pytest.raises(TypeError, match="forward\\(\\) has no option 'temperature'"):
        client.forward(TOKENS, temperature=0)


def test_estimates_are_what_comes(client):
    estimate = client.estimate_capture(TOKENS, hooks=["resid_post"], layers=[0, 1])
    _, cache = client.run_with_cache(TOKENS, hooks=["resid_post"], layers=[0, 1])
    assert estimate.prompt_token_count == len(TOKENS)
    assert estimate.bytes_max == sum(array.nbytes for array in cache.values())


def test_embeddings_are_pooled_rows(client):
    _, cache = client.run_with_cache(TOKENS, hooks=["final_norm_out", "resid_post"], layers=[1])
    rows = cache["final_norm_out"]
    embedded = client.embed([TOKENS, "Hello"])
    assert embedded.shape == (2, client.get_model().hidden_size) and embedded.flags.writeable
    np.testing.assert_allclose(embedded[0], rows.astype(np.float64).mean(0), rtol=1e-6)
    last = client.embed([TOKENS], hook="resid_post", layer=1, pooling="last")
    np.testing.assert_array_equal(last[0], cache["blocks.1.hook_resid_post"][-1])
    assert abs(np.linalg.norm(client.embed([TOKENS], normalize=True)) - 1) < 1e-6
    with pytest.raises(TypeError, match="inputs is a string"):
        client.embed("Hello")
    with pytest.raises(ValueError, match="pooling is 'max'"):
        client.embed(["Hello"], pooling="max")


def test_a_conversation_goes_on(client):
    messages = [{"role": "user", "content": "Say yes."}]
    rendered = client.apply_chat_template(messages)
    options = dict(max_tokens=6, temperature=0)
    reply = client.chat(messages, **options)

    assert "Say yes." in rendered.text and rendered.ids == client.tokenize(
        rendered.text, add_special_tokens=False, parse_special=True)
    assert reply == {"role": "assistant", "content": client.generate_text(rendered.ids, **options)}
    assert reply["content"] == client.generate_text(headrace.make_chat(messages), **options)
    assert reply["content"] in client.apply_chat_template([*messages, reply]).text
    begun = [*messages, {"role": "assistant", "content": "Ye"}]
    assert client.apply_chat_template(begun, continue_final_message=True).text.endswith("Ye")
    kwargs = client.apply_chat_template(messages, template="{{ messages[0].content }}{{ mood }}",
                                        template_kwargs={"mood": "!"})
    assert kwargs.text == "Say yes.!"


def test_narrow_arrays_stay_what_they_are_when_asked(client):
    _, wide = client.run_with_cache(TOKENS, layers=[2], dtype="f16")
    _, half = client.run_with_cache(TOKENS, layers=[2], dtype="f16", native=True)
    name = "blocks.2.hook_resid_post"
    assert half[name].dtype == np.float16 and wide[name].dtype == np.float32
    np.testing.assert_array_equal(half[name].astype(np.float32), wide[name])
    assert half.dtype == "f16"
    with pytest.raises(ValueError, match="travelled as f16"):
        half.verify()


def test_bf16_arrays_of_ml_dtypes(client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    _, wide = client.run_with_cache(TOKENS, layers=[2], dtype="bf16")
    _, narrow = client.run_with_cache(TOKENS, layers=[2], dtype="bf16", native=True)
    array = narrow["blocks.2.hook_resid_post"]
    assert array.dtype == ml_dtypes.bfloat16 and array.flags.owndata
    np.testing.assert_array_equal(array.astype(np.float32), wide["blocks.2.hook_resid_post"])


def test_what_is_not_installed_is_named(client, monkeypatch):
    _, cache = client.run_with_cache(TOKENS, layers=[2])
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install ml_dtypes"):
        client.run_with_cache(TOKENS, layers=[2], dtype="bf16", native=True)
    with pytest.raises(ImportError, match="pip install torch"):
        cache.to_torch()


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_torch_tensors_share_memory(client, dtype):
    torch = pytest.importorskip("torch")
    if dtype == "bf16":
        pytest.importorskip("ml_dtypes")
    _, cache = client.run_with_cache(TOKENS, layers=[2], dtype=dtype, native=True)
    name = "blocks.2.hook_resid_post"
    tensor = cache.to_torch()[name]
    assert tensor.dtype == (torch.float32 if dtype == "f32" else torch.bfloat16)
    np.testing.assert_array_equal(tensor.float().numpy(), cache[name].astype(np.float32))
    cache[name][0, 0] = 3
    assert tensor[0, 0] == 3
    assert cache.to_torch(device="cpu")[name].dtype == tensor.dtype


def test_rows_are_selected_by_pythons_values(client):
    def positions(**selection):
        _, cache = client.run_with_cache(TOKENS, layers=[0], rows=headrace.rows(**selection), max_tokens=4,
                                         temperature=0, ignore_eos=True)
        return cache.rows.position.tolist()

    assert positions(prompt="all") == [0, 1, 2, 3, 4]
    assert positions(prompt="last") == positions(prompt=[-1]) == [4]
    assert positions(prompt=range(1, 5, 2)) == positions(prompt=(1, 3)) == [1, 3]
    assert positions(prompt=range(-2, 0)) == [3, 4]
    assert positions(prompt="all", exclude_positions=[0], exclude_tokens=[104]) == [2, 3, 4]
    assert positions(prompt=[1], generated="all", exclude_positions=[6]) == [1, 5, 7]
    assert positions(generated="all", feed_last_token=True) == [5, 6, 7, 8]
    with pytest.raises(ValueError, match="prompt is 'first'"):
        headrace.rows(prompt="first")


def test_the_cache_asks_for_its_own_attribution(client):
    asked = dict(rows=headrace.rows(generated="all"), max_tokens=4, temperature=1, ignore_eos=True)
    logits, cache = client.run_with_cache(TOKENS, layers=[0], **asked)
    attribution = cache.logit_attrs([65, 66])
    # The same tokens were sampled again.
    assert attribution.positions.tolist() == cache.rows.position.tolist()
    np.testing.assert_array_equal(attribution.logits, logits[:, [65, 66]])
