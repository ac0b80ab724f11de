"""Context extension end to end, on stories260K (window 512)."""
import concurrent.futures

import numpy as np
import pytest

import headrace
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


def losses(client, tokens, method):
    extension = ce.ContextExtension(rope_scaling=METHODS[method], max_context=LENGTH)
    stream = client._inference.Forward(generation_pb2.ForwardRequest(
        tokens=generation_pb2.TokenIds(ids=tokens), context_extension=extension,
        logprobs=generation_pb2.LogprobsOptions(prompt=True)))
    return np.array([-r.logprobs.token.logprob for r in stream if r.HasField("logprobs")])


def test_extended_contexts_stay_bounded_where_none_blows_up(stories, text):
    curves = {method: losses(stories, text, method) for method in METHODS}
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
