"""Sampling on SmolLM2-135M in exact numerics: filters, penalties, seeds, neighbours.

The right ids come from transformers on the dequantised weights, in float32.
"""
import itertools
import json
import math
import threading

import pytest

import headrace
from headrace.v1 import context_extension_pb2, generation_pb2

FRANCE = [504, 3575, 282, 4649, 314]  # "The capital of France is"
GREEDY = [7042, 30, 198, 198, 504, 2988, 314, 42]
LOGPROBS = generation_pb2.LogprobsOptions(top_n=1)


def ids(client, prompt, **options):
    return [e.id for e in client.generate(prompt, **options) if isinstance(e, headrace.Token)]


def ids_and_logprobs(client, prompt, **options):
    return [(e.id, e.logprob) for e in client.generate(prompt, logprobs=LOGPROBS, **options)
            if isinstance(e, headrace.Token)]


def violations(call):
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        call()
    return {v.field: v.description for v in caught.value.field_violations}


@pytest.mark.parametrize("options", [{"top_p": 1e-8}, {"top_p": 1e-45}, {"min_p": 1.0}, {"top_k": 1}])
def test_filters_that_leave_one_token_are_greedy(smollm2, options):
    # ml-explore/mlx-lm#1912
    assert ids(smollm2, FRANCE, temperature=1, seed=1, max_tokens=8, **options) == GREEDY


@pytest.mark.parametrize("temperature", [-0.0, 5e-324, 1e-45])
def test_temperatures_of_nothing_are_greedy(smollm2, temperature):
    # NVIDIA/Megatron-LM#6993
    stream = ids_and_logprobs(smollm2, FRANCE, temperature=temperature, seed=1, max_tokens=8)
    assert [id for id, _ in stream] == GREEDY
    assert all(math.isfinite(logprob) and logprob <= 0 for _, logprob in stream)


def test_top_k_beyond_the_vocabulary_is_off(smollm2):
    # paiml/aprender#2314
    run = lambda **options: ids(smollm2, FRANCE, temperature=1, seed=1, max_tokens=8, **options)
    assert run() == run(top_k=0) == run(top_k=1_000_000)


def test_limits_of_top_p_and_top_n_are_named(smollm2):
    named = violations(lambda: ids(smollm2, FRANCE, max_tokens=1, top_p=0.0,
                                   logprobs=generation_pb2.LogprobsOptions(top_n=1_000_000)))
    assert set(named) == {"sampling.top_p", "logprobs.top_n"}
    assert "1000000" in named["logprobs.top_n"] and "(0, 1]" in named["sampling.top_p"]


def test_penalties_count_what_they_say(smollm2):
    # huggingface/transformers#2302, NVIDIA/TensorRT-LLM#5623
    prompt = "The cat sat on the mat. The cat sat on the"
    run = lambda **options: ids(smollm2, prompt, temperature=0, max_tokens=14, **options)
    assert len(smollm2.tokenize(prompt)) == 12
    assert run()[:4] == [1171, 30, 378, 2644]
    assert run(repetition_penalty=1.1) == [1171, 28, 284, 357, 436, 253, 3953, 1194, 30, 198, 198, 788, 451, 1977]
    frequency = run(frequency_penalty=1.0)
    assert frequency[-8:] == [260, 1171, 30, 198, 198, 788, 451, 1183]
    assert frequency[:4] == [1171, 30, 378, 2644]  # [1171, 28, 284, 357] if the prompt counted
    assert run(presence_penalty=1.0) == frequency


def test_every_bad_parameter_is_named_at_once(smollm2):
    # ohdearquant/lattice#297, agnaistic/agnai#612
    nan, inf = float("nan"), float("inf")
    scaling = context_extension_pb2.RopeScaling(linear=context_extension_pb2.LinearScaling(factor=nan))
    named = violations(lambda: list(smollm2.generate(
        FRANCE, max_tokens=1, temperature=nan, top_p=nan, min_p=1.5, typical_p=-1.0, repetition_penalty=0.0,
        presence_penalty=inf, logit_bias={5: nan}, stop_strings=["", "ok"], seed=3, time_limit=-1.0,
        context_extension=context_extension_pb2.ContextExtension(rope_scaling=scaling))))
    said = {
        "sampling.temperature": ("nan", "0"), "sampling.top_p": ("nan", "(0, 1]"), "sampling.min_p": ("1.5", "[0, 1]"),
        "sampling.typical_p": ("-1", "(0, 1]"), "sampling.repetition_penalty": ("0", "above 0"),
        "sampling.presence_penalty": ("inf", "finite"), "sampling.logit_bias[5]": ("nan",),
        "stop.stop_strings[0]": ("from 1 to", "has 0"), "stop.time_limit": ("-1",),
        "context_extension.rope_scaling.linear.factor": ("nan", "1")}
    assert set(named) == set(said)
    for field, parts in said.items():
        assert all(part in named[field].lower() for part in parts), (field, named[field])


CHAT = [{"role": "user", "content": "hi"}]
CHAT_IDS = [19556, 665, 17, 1073, 416, 339, 4237, 346, 1834, 47, 2]
REQUESTS = {
    "plain": dict(temperature=0),
    "wild": dict(temperature=1.3, seed=3, ignore_eos=True, max_tokens=20, repetition_penalty=1.3, presence_penalty=0.5,
                 frequency_penalty=0.2, logit_bias={2: -100.0, 19556: -100.0}),
    "banned": dict(temperature=0, max_tokens=20, logit_bias={19556: -100.0}),
}


def test_requests_do_not_change_their_successors_and_neighbours(smollm2):
    # ikawrakow/ik_llama.cpp#2475, vllm-project/vllm#22180, NVIDIA/TensorRT-LLM#17890
    run = lambda name: ids_and_logprobs(smollm2, CHAT, **REQUESTS[name])
    alone = {name: run(name) for name in REQUESTS}
    assert [id for id, _ in alone["plain"]] == CHAT_IDS
    assert 19556 not in [id for id, _ in alone["wild"] + alone["banned"]]
    assert run("plain") == alone["plain"]
    for order in itertools.permutations(REQUESTS):
        seen = {}
        threads = [threading.Thread(target=lambda name=name: seen.update({name: run(name)})) for name in order]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == alone, order


def test_seeds(smollm2):
    # Blaizzy/mlx-vlm#1844
    run = lambda **options: ids(smollm2, FRANCE, temperature=1, max_tokens=12, **options)
    unset = [list(smollm2.generate(FRANCE, temperature=1, max_tokens=12)) for _ in range(5)]
    outputs = [tuple(e.id for e in stream if isinstance(e, headrace.Token)) for stream in unset]
    assert len(set(outputs)) >= 4
    for stream, output in zip(unset, outputs):
        assert tuple(run(seed=stream[0].sampling.seed)) == output
    assert run(seed=0) == run(seed=0)
    assert run(seed=2**53 + 1) != run(seed=2**53)


def test_all_bits_of_a_seed_survive_the_command_line_and_json(smollm2, smollm2_address, command_line):
    # ggml-org/llama.cpp#2002, ShiftHackZ/Stable-Diffusion-KMP#569
    flags = ["--prompt", "The capital of France is", "--max_tokens", "12", "--temperature", "1", "--json"]
    for seed in (0, 2**31, 2**32 - 1, 2**53 + 1, 2**63, 2**64 - 1):
        done = command_line(smollm2_address, "generate", *flags, "--seed", str(seed))
        events = [json.loads(line, parse_float=str) for line in done.stdout.splitlines()]
        assert int(events[0]["header"]["sampling"]["seed"]) == seed
        expected = list(smollm2.generate(FRANCE, temperature=1, max_tokens=12, seed=seed))
        assert expected[0].sampling.seed == seed
        assert [e["token"]["id"] for e in events if "token" in e] == \
            [e.id for e in expected if isinstance(e, headrace.Token)]
    for seed in ("-1", str(2**64)):
        done = command_line(smollm2_address, "generate", *flags, f"--seed={seed}")
        assert done.returncode != 0 and b"18446744073709551615" in done.stderr, done


def test_choices_of_one_seed_differ_and_come_again(smollm2):
    # ml-explore/mlx-lm#1620
    def choices():
        out = {}
        for e in smollm2.generate(FRANCE, temperature=1, seed=5, max_tokens=10, n=3):
            if isinstance(e, headrace.Token):
                out.setdefault(e.choice, []).append(e.id)
        return out
    first = choices()
    assert sorted(first) == [0, 1, 2] and len({tuple(c) for c in first.values()}) == 3
    assert choices() == first
