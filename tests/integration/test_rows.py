"""Rows are those of their own request, position and token: in any company, from
the cache, while generating, through every RPC; and what they cost. The threads
named here report rows that had the right shape and were wrong."""
import concurrent.futures
import os
import random
import time

import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2, derived_pb2, generation_pb2, selection_pb2
from servers import serving

HOOKS = ["resid_pre", "attn_out", "resid_post"]
EVERYTHING = headrace.rows(prompt="all", generated="all")
# Of 1 to 90 tokens, some with the ids that others pad with: 0, 1 and 2.
LENGTHS = (1, 2, 3, 5, 8, 17, 33, 64, 65, 90)
PROMPTS = [[(7 * i + 13 * p) % 500 if (p + i) % 5 else p % 3 for p in range(length)]
           for i, length in enumerate(LENGTHS)]
UNCACHED = generation_pb2.CacheOptions(use_prefix=False)


def cached(client, prompt, **options):
    """The arrays of one call, and what their rows are."""
    _, cache = client.run_with_cache(prompt, hooks=HOOKS, **{"rows": EVERYTHING, "temperature": 0,
                                                             "ignore_eos": True, **options})
    return cache


def bits(cache):
    labels = (cache.rows.position.tolist(), cache.rows.token.tolist(), cache.rows.phase, cache.rows.choice.tolist())
    return labels, {name: array.tobytes() for name, array in cache.items()}


def test_rows_are_the_same_alone_and_among_others(stories, stories_address):
    # sgl-project/sglang#4997, sgl-project/sglang#8066, vllm-project/speculators#279: another request's rows;
    # QwenLM/Qwen3#829, QwenLM/Qwen3-VL#1430, TransformerLensOrg/TransformerLens#1005,
    # TransformerLensOrg/TransformerLens#467, ndif-team/nnsight#672: rows that depend on the padding.
    run = lambda prompt: bits(cached(stories, prompt, max_tokens=6, cache=UNCACHED))
    alone = [run(prompt) for prompt in PROMPTS]
    for (position, token, phase, _), _ in alone:
        assert position == list(range(len(position))) and phase.count("generated") == 5
        assert token[:phase.count("prompt")] in PROMPTS
    order = list(range(len(PROMPTS))) * 3
    random.Random(1).shuffle(order)
    # They do run together: more rows are made in fewer steps than one at a time would take.
    steps = stories_address.metric("headrace_steps_total")
    with concurrent.futures.ThreadPoolExecutor(15) as pool:
        together = list(pool.map(lambda i: run(PROMPTS[i]), order))
    assert stories_address.metric("headrace_steps_total") - steps < 6 * len(order)
    for i, result in zip(order, together):
        assert result == alone[i], PROMPTS[i]


def test_the_last_row_is_that_of_the_last_token(stories):
    # vgel/repeng#38: that of the padding, in a batch; TransformerLensOrg/TransformerLens#1701,
    # ndif-team/nnsight#234: each way in padded on another side.
    lasts = stories.embed(PROMPTS, hook="resid_post", layer=2, pooling="last")
    with headrace.Harvest(stories, PROMPTS, layers=[2], rows=headrace.rows(prompt="last"), exclude_tokens=(),
                          seed=None, batch_rows=4, buffer_rows=8) as harvest:
        harvested = np.concatenate([batch.activations for batch in harvest])
    for i, prompt in enumerate(PROMPTS):
        last = cached(stories, prompt, layers=[2], rows=headrace.rows(prompt="last"), max_tokens=0)
        assert last.rows.position.tolist() == [len(prompt) - 1] and last.rows.token.tolist() == prompt[-1:]
        row = last["blocks.2.hook_resid_post"]
        whole = cached(stories, prompt, layers=[2], max_tokens=0)
        np.testing.assert_array_equal(row[0], whole["blocks.2.hook_resid_post"][-1])
        np.testing.assert_array_equal(lasts[i], row[0])
        np.testing.assert_array_equal(harvested[i], row[0])
        capture = headrace.capture(["resid_post"], layers=[2], rows=headrace.rows(prompt="last"))
        (chunk,) = [e for e in stories.forward(prompt, capture=capture) if isinstance(e, headrace.ActivationChunk)]
        assert chunk.data == row.tobytes()


def test_a_cached_prefix_hides_no_row(stories):
    # vllm-project/vllm#44485, vllm-project/vllm-omni#1184, vllm-project/vllm-omni#2164, sgl-project/sglang#8066
    prompt = [1] + [(11 * i) % 400 + 3 for i in range(199)]
    cold = bits(cached(stories, prompt, max_tokens=4, cache=UNCACHED))
    assert cold[0][0] == list(range(200 + 3))
    options = dict(max_tokens=4, temperature=0, ignore_eos=True)
    for _ in range(2):
        end = list(stories.generate(prompt, **options))[-1]
    assert end.usage.cached_tokens >= 160
    for _ in range(2):
        assert bits(cached(stories, prompt, max_tokens=4)) == cold
    # Rows after the prefix do not need it computed again, and are the same.
    rows = headrace.rows(prompt="last", generated="all")
    events = list(stories.generate(prompt, capture=headrace.capture(HOOKS, rows=rows), **options))
    assert events[-1].usage.cached_tokens >= 160
    warm = cached(stories, prompt, rows=rows, max_tokens=4)
    assert warm.rows.position.tolist() == [199, 200, 201, 202]
    whole = cached(stories, prompt, max_tokens=4)
    for name, array in warm.items():
        np.testing.assert_array_equal(array, whole[name][199:])


@pytest.mark.parametrize("n", [1, 3])
def test_generated_rows_are_those_of_the_whole_sequence(stories, n):
    # TransformerLensOrg/TransformerLens#697, TransformerLensOrg/TransformerLens#889: of generated tokens, in one pass;
    # TransformerLensOrg/TransformerLens#500, stanfordnlp/pyvene#15: wrong from the second step on;
    # vllm-project/vllm#48743, vllm-project/vllm#4435: with the text, for several choices.
    asked = dict(max_tokens=12, temperature=1.2, seed=5, n=n)
    texts = [[] for _ in range(n)]
    for event in stories.generate([1, 403, 407], ignore_eos=True, **asked):
        if isinstance(event, headrace.Token):
            texts[event.choice].append(event.id)
    cache = cached(stories, [1, 403, 407], **asked)
    for choice, ids in enumerate(texts):
        mine = np.array([phase == "prompt" or c == choice for phase, c in zip(cache.rows.phase, cache.rows.choice)])
        whole = cached(stories, [1, 403, 407, *ids[:-1]], max_tokens=0)
        assert cache.rows.token[mine].tolist() == whole.rows.token.tolist()
        for name, array in whole.items():
            np.testing.assert_array_equal(cache[name][mine], array, err_msg=name)


def test_rows_come_while_tokens_are_generated(smollm2):
    # vllm-project/vllm#48743: refused with streaming, or all at the end.
    capture = headrace.capture(["resid_post"], layers=[-1], rows=headrace.rows(generated="all"))
    events = smollm2.generate("Once upon a time", max_tokens=2000, temperature=0, ignore_eos=True, capture=capture)
    tokens = 0
    for event in events:
        tokens += isinstance(event, headrace.Token)
        if isinstance(event, headrace.ActivationChunk):
            break
    events.close()
    assert event.phase == selection_pb2.PHASE_GENERATED and event.positions[0] == 4
    assert tokens < 1000


def test_a_window_of_positions_costs_a_window_of_bytes(stories):
    # vllm-project/vllm#56916, vllm-project/vllm#57736: windows; sgl-project/sglang#8069, sgl-project/sglang#30177:
    # some layers, the last token; ndif-team/nnsight#381: sliced before it travels.
    prompt = [(17 * i) % 500 for i in range(300)]
    whole = cached(stories, prompt, max_tokens=0)
    for rows, expected in ((headrace.rows(prompt=range(60, 64)), [60, 61, 62, 63]),
                           (headrace.rows(prompt=range(295, 400)), [295, 296, 297, 298, 299]),
                           (headrace.rows(prompt="last"), [299])):
        capture = headrace.capture(["resid_post"], layers=[1, 3], rows=rows)
        events = list(stories.generate(prompt, max_tokens=0, capture=capture))
        chunks = [event for event in events if isinstance(event, headrace.ActivationChunk)]
        assert sum(len(chunk.data) for chunk in chunks) == 2 * len(expected) * 64 * 4
        assert events[-1].rows[0].rows == 2 * len(expected)
        for layer in (1, 3):
            (chunk,) = [chunk for chunk in chunks if chunk.layer == layer]
            assert list(chunk.positions) == expected
            assert chunk.data == whole[f"blocks.{layer}.hook_resid_post"][expected].tobytes()


def test_the_stream_ends_before_the_final_norm_and_in_the_logits(stories):
    # huggingface/transformers#26142, huggingface/transformers#48087: the last "hidden state" was after the norm;
    # lightseekorg/TorchSpec#87: off by one layer; TransformerLensOrg/TransformerLens#523,
    # TransformerLensOrg/TransformerLens#693: unembedded, it was not the logits.
    hooks = ["embed", "resid_pre", "resid_post", "final_norm_scale", "final_norm_out"]
    vocabulary = 512
    _, everything = stories.run_with_cache(list(range(vocabulary)), hooks=["embed"], layers=[0])
    unembed = everything["hook_embed"].astype(np.float64)  # the model's two ends are tied
    logits, cache = stories.run_with_cache(PROMPTS[-1], hooks=hooks)
    layers = stories.get_model().num_hidden_layers
    for layer in range(1, layers):
        np.testing.assert_array_equal(cache[f"blocks.{layer}.hook_resid_pre"],
                                      cache[f"blocks.{layer - 1}.hook_resid_post"])
    last = cache[f"blocks.{layers - 1}.hook_resid_post"].astype(np.float64)
    np.testing.assert_allclose(cache["ln_final.hook_scale"][:, 0], np.sqrt((last ** 2).mean(-1) + 1e-5), rtol=1e-6)
    normed = cache["final_norm_out"].astype(np.float64)
    assert not np.allclose(normed, last, rtol=0.1)
    # The norm of the same row, with one gain for all of them.
    unit = last / cache["ln_final.hook_scale"]
    gain = (normed * unit).sum(0) / (unit ** 2).sum(0)
    np.testing.assert_allclose(unit * gain, normed, atol=2e-6 * np.abs(normed).max())
    # Not centred either: neither the weights nor the logits were processed.
    np.testing.assert_allclose(normed @ unembed.T, logits, atol=2e-5 * np.abs(logits).max())
    assert np.abs(logits.mean(-1)).min() > 0.1


def processor_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_reading_rows_costs_little(smollm2, smollm2_address):
    # sgl-project/sglang#8003, sgl-project/sglang#16776: 4 to 17 times slower;
    # deepjavalibrary/djl-serving#3066: 15 to 30 times, for a probe on one row.
    prompt = [(31 * i) % 40000 + 20 for i in range(96)]
    direction = derived_pb2.DerivedSpec(projection=derived_pb2.Projection(
        where=selection_pb2.HookSelector(hook=selection_pb2.HOOK_POINT_RESID_POST, layers=[-1]),
        vectors=[headrace.interventions.to_vector(np.ones(576))]))
    captures = {
        "nothing": {},
        "all": {"capture": headrace.capture(["resid_post"], rows=EVERYTHING)},
        "probe": {"capture": activations_pb2.CaptureSpec(rows=headrace.rows(prompt="last", generated="all"),
                                                         derived=[direction])}}

    def cost(capture):
        """What both sides compute: others use the machine too, and time would be theirs."""
        began = processor_seconds(smollm2_address.pid) + time.process_time()
        events = list(smollm2.generate(prompt, max_tokens=8, temperature=0, ignore_eos=True, cache=UNCACHED, **capture))
        assert bool(capture) == any(isinstance(e, (headrace.ActivationChunk, headrace.Derived)) for e in events)
        return processor_seconds(smollm2_address.pid) + time.process_time() - began

    least = {name: min(cost(capture) for _ in range(2)) for name, capture in captures.items()}
    assert least["all"] < 2 * least["nothing"] and least["probe"] < 2 * least["nothing"], least


def test_shuffling_costs_less_than_reading(stories):
    # decoderesearch/SAELens#277: more than half of the time went into it.
    prompts = [[(i * 31 + p * 7) % 500 for p in range(250)] for i in range(40)]

    def seconds(seed):
        began = time.process_time()
        with headrace.Harvest(stories, prompts, layers=[3], seed=seed, batch_rows=1024, buffer_rows=4096,
                              exclude_tokens=()) as harvest:
            assert sum(map(len, harvest)) == 10000
        return time.process_time() - began

    least = {seed: min(seconds(seed) for _ in range(2)) for seed in (None, 0)}
    assert least[0] < 2 * least[None], least


def test_memory_grows_with_the_prompt_and_not_with_its_square(stories_path):
    # TransformerLensOrg/TransformerLens#479: a mask of n x n per layer; TransformerLensOrg/TransformerLens#807,
    # TransformerLensOrg/TransformerLens#746: what is cached stays.
    def peak(address):
        with open(f"/proc/{address.pid}/status", encoding="ascii") as status:
            (line,) = [line for line in status if line.startswith("VmHWM:")]
        return int(line.split()[1]) << 10

    length = 8192
    with serving(stories_path, "--rope_scaling", "linear", "--rope_factor", "32", "--context_length", "16384",
                 "--max_capture_bytes", "4194304") as address, headrace.Client(address) as client:
        client.run_with_cache([5] * 64)
        before = peak(address)
        rows = 0
        for event in client.forward([(3 * i) % 500 for i in range(length)], capture=headrace.capture(HOOKS)):
            rows += event.row_count if isinstance(event, headrace.ActivationChunk) else 0
        assert rows == 3 * 5 * length  # 31 MB of them
        # Keys and values of 5 layers take 10 MB; one mask of bytes would take 67 MB.
        growth = peak(address) - before
        assert growth < 48 << 20, growth
