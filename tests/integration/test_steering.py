"""Steering a request: at every token, whatever is cached, streamed or run beside
it, and nothing of it is left for others. The threads named here report steering
that was applied in part, twice, or to somebody else."""
import concurrent.futures

import numpy as np
import pytest

import headrace
from headrace import interventions

PROMPT = [1, 403, 407, 261, 378, 432, 383, 286]
EVERYTHING = headrace.rows(prompt="all", generated="all")
SEEDS = (1, 2, 3)


def vector(seed):
    return np.random.default_rng(seed).standard_normal(64).astype(np.float32)


def steering(seed):
    return [interventions.add("resid_post", vector(seed), coefficient=0.5, layers=[1, 3])]


def tokens(client, prompt, **options):
    return [event.id for event in client.generate(prompt, temperature=0, ignore_eos=True, **options)
            if isinstance(event, headrace.Token)]


def rows(client, prompt, **options):
    """Every row of the bus and the logits, and what they are rows of."""
    _, cache = client.run_with_cache(prompt, hooks=["resid_pre", "resid_post"],
                                     **{"rows": EVERYTHING, "temperature": 0, "ignore_eos": True, **options})
    return cache.rows.token.tolist(), {name: array.tobytes() for name, array in cache.items()}


def test_steering_is_the_same_with_the_cache_and_computed_anew(stories):
    # hijohnnylin/neuronpedia#163; TransformerLensOrg/TransformerLens#1337: whole sequences, but not steered ones;
    # TransformerLensOrg/TransformerLens#500: lost after the first step.
    for seed in SEEDS:
        steered = dict(interventions=steering(seed))
        generated = tokens(stories, PROMPT, max_tokens=24, **steered)
        assert generated != tokens(stories, PROMPT, max_tokens=24)
        decoded = rows(stories, PROMPT, max_tokens=24, **steered)
        anew = rows(stories, PROMPT + generated[:-1], max_tokens=0, **steered)
        assert decoded[0] == PROMPT + generated[:-1]
        assert decoded == anew
        # One token a call, each from the prompt so far.
        sequence = list(PROMPT)
        for _ in range(8):
            sequence += tokens(stories, sequence, max_tokens=1, **steered)
        assert sequence == PROMPT + generated[:8]


@pytest.mark.parametrize("beside", [0, 3])
def test_every_decoded_token_is_steered_once(stories, beside):
    # AIRI-Institute/SAE-Reasoning#3, stanfordnlp/pyvene#15: silently not applied on every step.
    generated = headrace.rows(generated="all")
    once = [interventions.add("resid_post", vector(1), coefficient=0.5, layers=[2], rows=generated)]
    capture = dict(hooks=["resid_post"], layers=[2], rows=EVERYTHING)
    streams = [stories.generate(PROMPT, max_tokens=100, ignore_eos=True, seed=i) for i in range(beside)]
    others = [next(stream) for stream in streams]

    def run(**how):
        events = list(stories.generate(PROMPT, max_tokens=16, temperature=0, ignore_eos=True, interventions=once,
                                       capture=headrace.capture(**capture, **how)))
        data = {}
        for event in events:
            if isinstance(event, headrace.ActivationChunk):
                array = np.frombuffer(event.data, np.float32).reshape(event.row_count, event.width)
                data.update(zip(event.positions, array))
        return events[-1].interventions_applied, data

    applied, after = run()
    _, before = run(before_interventions=True)
    for stream in streams:
        stream.close()
    assert len(others) == beside
    assert list(applied) == [15] and sorted(after) == sorted(before) == list(range(len(PROMPT) + 15))
    for position in after:
        write = 0 if position < len(PROMPT) else np.float32(0.5) * vector(1)
        np.testing.assert_array_equal(after[position], before[position] + write, err_msg=str(position))


def test_each_request_has_its_own_vector_and_leaves_none(stories):
    # ggml-org/llama.cpp#10685, ggml-org/llama.cpp#6316, ggml-org/llama.cpp#24740: one vector per server;
    # TransformerLensOrg/TransformerLens#1636: hooks outlive their call, or take others' away.
    run = lambda seed: rows(stories, PROMPT * 8, max_tokens=10, **({"interventions": steering(seed)} if seed else {}))
    plain = run(0)
    alone = {0: plain, **{seed: run(seed) for seed in SEEDS}}
    assert len({tuple(tokens) for tokens, _ in alone.values()}) > 2
    order = [0, *SEEDS] * 4
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(run, order))
    for seed, result in zip(order, together):
        assert result == alone[seed], seed
    assert run(0) == plain
    # One that is given up half-way leaves nothing either.
    events = stories.generate(PROMPT * 8, ignore_eos=True, interventions=steering(1))
    next(events)
    events.close()
    assert run(0) == plain


@pytest.mark.parametrize("piece", [1, 5])
def test_text_that_comes_in_pieces_is_steered_alike(stories, piece):
    # hijohnnylin/neuronpedia#37
    steered = dict(interventions=steering(2), temperature=0, ignore_eos=True)
    whole = stories.generate_text(PROMPT, max_tokens=20, **steered)
    events = list(stories.generate(PROMPT, max_tokens=20, **steered))
    assert "".join(e.text for e in events if isinstance(e, (headrace.Token, headrace.ChoiceEnd))) == whole
    ids = [event.id for event in events if isinstance(event, headrace.Token)]
    pieces = []
    while len(pieces) < 20:
        pieces += tokens(stories, PROMPT + pieces, max_tokens=piece, interventions=steering(2))
    assert pieces == ids
    assert whole != stories.generate_text(PROMPT, max_tokens=20, temperature=0, ignore_eos=True)


def test_rows_of_one_prompt_are_patched_into_another(stories):
    # thinking-machines-lab/tinker-feedback#45, ggml-org/llama.cpp#27112: read and patched from outside.
    source, target = [1, 403, 407, 261], [1, 403, 407, 378]
    source_logits, read = stories.run_with_cache(source, hooks=["resid_post"])
    target_logits, _ = stories.run_with_cache(target, hooks=["resid_post"])
    last = headrace.rows(prompt=[3])
    for layer in range(5):
        row = read[f"blocks.{layer}.hook_resid_post"][3]
        patch = interventions.replace("resid_post", row, layers=[layer], rows=last)
        patched, _ = stories.run_with_cache(target, interventions=[patch])
        np.testing.assert_array_equal(patched[:3], target_logits[:3])
        if layer == 4:
            np.testing.assert_array_equal(patched[3], source_logits[3])
        else:  # keys and values of the layers before are still the target's own
            assert not np.array_equal(patched[3], target_logits[3])
    # All that the last token is, from the first layer on: the source in every bit.
    embed = stories.run_with_cache(source, hooks=["embed"])[1]["hook_embed"][3]
    patched, _ = stories.run_with_cache(target, interventions=[interventions.replace("embed", embed, rows=last)])
    np.testing.assert_array_equal(patched, source_logits)
