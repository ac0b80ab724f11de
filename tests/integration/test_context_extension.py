"""Context extension end to end, on stories260K (window 512)."""
import concurrent.futures

import numpy as np
import pytest

import headrace
import model_files
from headrace.v1 import activations_pb2, context_extension_pb2 as ce, generation_pb2

LENGTH = 2048
METHODS = {
    "none": ce.RopeScaling(none=ce.NoScaling()),
    "linear": ce.RopeScaling(linear=ce.LinearScaling(factor=4)),
    "ntk": ce.RopeScaling(ntk=ce.NtkScaling(factor=4)),
    "yarn": ce.RopeScaling(yarn=ce.YarnScaling(factor=4)),
}


@pytest.fixture(scope="module")
def text(stories):
    """Stories that the model itself tells, as many as fill the longest context."""
    tokens = [1]
    seed = 0
    while len(tokens) < LENGTH:
        seed += 1
        story = [e.id for e in stories.generate([1], max_tokens=250, seed=seed, temperature=0.8, ignore_eos=True)
                 if isinstance(e, headrace.Token)]
        tokens += story + [1]
    return tokens[:LENGTH]


def losses(address, tokens, method):
    extension = ce.ContextExtension(rope_scaling=METHODS[method], max_context=LENGTH)
    stream = address.inference.Forward(generation_pb2.ForwardRequest(
        tokens=generation_pb2.TokenIds(ids=tokens), context_extension=extension,
        logprobs=generation_pb2.LogprobsOptions(prompt=True)))
    return np.array([-r.logprobs.token.logprob for r in stream if r.HasField("logprobs")])


def test_extended_contexts_stay_bounded_where_none_blows_up(stories_address, text):
    curves = {method: losses(stories_address, text, method) for method in METHODS}
    means = {m: [float(c[b:b + 256].mean()) for b in range(0, LENGTH - 1, 256)] for m, c in curves.items()}
    for method, curve in curves.items():
        assert curve.shape == (LENGTH - 1,) and np.isfinite(curve).all(), method
    unscaled = means["none"][-1]
    # Four windows out, the unscaled model has lost more than half a nat; NTK and YaRN have kept most of it.
    assert unscaled > means["none"][0] + 0.5, means
    for method in ("ntk", "yarn"):
        assert means[method][-1] < 0.85 * unscaled, means
    for method in ("linear", "ntk", "yarn"):
        # Bounded: never beyond the loss of a uniform guess by more than a nat.
        assert max(means[method]) < np.log(512) + 1, means


def test_prompts_beyond_the_window_need_scaling(stories, stories_path, start):
    # ggml-org/llama.cpp#17459
    prompt = [1] + [403] * 599
    scaled = ce.ContextExtension(rope_scaling=METHODS["linear"], max_context=2048)
    assert list(stories.generate(prompt, max_tokens=1, context_extension=scaled))
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        list(stories.generate(prompt, max_tokens=1))
    assert "600" in str(caught.value) and "512" in str(caught.value)
    with start(stories_path, "--context_length", "2048", "--rope_scaling", "linear", "--rope_factor", "4") as address:
        with headrace.Client(address) as client:
            assert list(client.generate(prompt, max_tokens=1))


def test_two_scalings_in_one_batch_do_not_disturb_each_other(stories):
    prompt = [1, 403, 407, 261, 378, 432, 383, 286, 261, 376] * 30

    def run(method):
        rows = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(last=True),
                                           generated=activations_pb2.PhaseRows(all=True))
        logits, cache = stories.run_with_cache(
            prompt, hooks=["resid_post"], rows=rows, max_tokens=24, temperature=0, ignore_eos=True,
            context_extension=ce.ContextExtension(rope_scaling=METHODS[method], max_context=2048))
        return logits, cache["blocks.4.hook_resid_post"]

    alone = {method: run(method) for method in METHODS}
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(run, list(METHODS) * 2))
    for method, result in zip(list(METHODS) * 2, together):
        for a, b in zip(alone[method], result):
            assert a.tobytes() == b.tobytes(), method
    assert not np.array_equal(alone["none"][0], alone["yarn"][0])


def test_a_short_prompt_is_not_scaled_for_a_long_one(stories):
    # sgl-project/sglang#6030: static YaRN changes short prompts too; awslabs/keys_values#12: what is cached for one
    # length is wrong for another.
    story = [1] + [(7 * i) % 500 for i in range(399)]
    auto, dynamic = ce.RopeScaling(auto=ce.AutoScaling()), ce.RopeScaling(dynamic_ntk=ce.DynamicNtkScaling(factor=4))

    def logits(length, scaling, max_tokens=8):
        extension = {} if scaling is None else {"context_extension": ce.ContextExtension(rope_scaling=scaling)}
        return stories.run_with_cache((story * 2)[:length], hooks=[], temperature=0, ignore_eos=True,
                                      max_tokens=max_tokens, rows=headrace.rows(prompt="last", generated="all"),
                                      **extension)[0]

    for length in (5, 400):
        plain = logits(length, None)
        np.testing.assert_array_equal(logits(length, auto), plain)
        np.testing.assert_array_equal(logits(length, dynamic), plain)
        assert not np.array_equal(logits(length, METHODS["yarn"]), plain)
        # A long one with the same beginning leaves nothing behind that the short one would take.
        assert np.isfinite(logits(600, dynamic)).all() and np.isfinite(logits(600, auto)).all()
        np.testing.assert_array_equal(logits(length, dynamic), plain)
        np.testing.assert_array_equal(logits(length, auto), plain)


def rope(client, **extension):
    """The rotary encoding that a request is given."""
    return next(client.generate([5, 6, 7], max_tokens=1, context_extension=ce.ContextExtension(**extension))).rope


UNSCALED = (0.6978305849, 1.4330125702e-5)  # of theta 100000 over 64 lanes: pairs 1 and 31
HALVED = (0.3489152924, 7.1650628512e-6)


@pytest.mark.parametrize("expected, configs", [
    (UNSCALED, [{}, {"rope_scaling": {}}, {"rope_scaling": {"rope_type": "default"}}]),
    (HALVED, [{"rope_scaling": {"type": "linear", "factor": 2}},
              {"rope_scaling": {"rope_type": "linear", "factor": 2.0}},
              {"rope_scaling": {"type": "linear", "rope_type": "linear", "factor": 2}},
              {"rope_theta": None, "rope_parameters": {"rope_type": "linear", "rope_theta": 100000.0, "factor": 2}}]),
])
def test_every_way_to_write_one_scaling_is_the_same(tmp_path, start, expected, configs):
    # huggingface/transformers#32167, ModelTC/LightLLM#359
    seen = set()
    for i, config in enumerate(configs):
        with start(model_files.write_folder(tmp_path / str(i), config)) as address, headrace.Client(address) as client:
            effective = client.get_model().rope
            assert effective.rope_theta == 100000
            assert effective.inv_freqs[1] == pytest.approx(expected[0], rel=1e-9)
            assert effective.inv_freqs[31] == pytest.approx(expected[1], rel=1e-9)
            seen.add((effective.hash, effective.SerializeToString(deterministic=True)))
            assert rope(client) == effective
    assert len(seen) == 1


@pytest.mark.parametrize("scaling, key", [
    ({"type": "yarn", "rope_type": "linear", "factor": 2}, "rope_type"), ({"type": "linear"}, "factor"),
    ({"type": "linear", "factor": "2"}, "factor"), ({"type": "linear", "factor": True}, "factor"),
    ({"type": "linear", "factor": 0.5}, "factor"),
])
def test_scaling_that_means_nothing_stops_the_start(tmp_path, refusal, scaling, key):
    assert key in refusal(model_files.write_folder(tmp_path / "model", {"rope_scaling": scaling}))


def test_a_scaled_request_keeps_the_models_own_base(smollm2):
    # unslothai/unsloth#7028
    effective = rope(smollm2, rope_scaling=ce.RopeScaling(linear=ce.LinearScaling(factor=2)))
    assert effective.type == ce.ROPE_TYPE_LINEAR and effective.rope_theta == 100000
    assert effective.inv_freqs[1] == pytest.approx(HALVED[0], rel=1e-9)


def test_a_request_replaces_the_files_own_scaling(tmp_path, start):
    # ggml-org/llama.cpp#3418: scaled twice.
    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 128}
    folder = model_files.write_folder(tmp_path / "scaled", {"rope_scaling": scaling, "max_position_embeddings": 1024})
    plain = model_files.write_folder(tmp_path / "plain", {"max_position_embeddings": 128})
    with start(plain) as address, headrace.Client(address) as client:
        unscaled = list(client.get_model().rope.inv_freqs)
    with start(folder) as address, headrace.Client(address) as client:
        own = client.get_model().rope
        assert own.type == ce.ROPE_TYPE_LLAMA3 and own.factor == 8 and own.context_length == 1024
        assert rope(client) == own
        linear = rope(client, rope_scaling=ce.RopeScaling(linear=ce.LinearScaling(factor=2)))
        assert linear.type == ce.ROPE_TYPE_LINEAR and linear.factor == 2 and not linear.HasField("low_freq_factor")
        np.testing.assert_allclose(linear.inv_freqs, np.array(unscaled) / 2, rtol=1e-15)
        assert linear.context_length == 256
        none = rope(client, rope_scaling=METHODS["none"])
        assert none.type == ce.ROPE_TYPE_DEFAULT and list(none.inv_freqs) == unscaled
        auto = ce.RopeScaling(auto=ce.AutoScaling())
        assert rope(client, rope_scaling=auto).hash == own.hash
        assert rope(client, rope_scaling=auto, max_context=4096).context_length >= 4096
