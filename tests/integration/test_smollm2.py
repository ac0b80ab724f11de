"""Public reports of wrong answers, as requests to a server of SmolLM2-135M.

The right values come from Hugging Face tokenizers and transformers on the
dequantised weights, in float32.
"""
import grpc
import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2, context_extension_pb2, generation_pb2

FRANCE = [504, 3575, 282, 4649, 314]  # "The capital of France is"
GREEDY = [7042, 30, 198, 198, 504, 2988, 314, 42]


def ids(client, prompt, **options):
    return [e.id for e in client.generate(prompt, **options) if isinstance(e, headrace.Token)]


def events(client, prompt, kind, **options):
    return [e for e in client.generate(prompt, **options) if isinstance(e, kind)]


def violations(call):
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        call()
    return {v.field for v in caught.value.field_violations}


def test_digits_of_every_script_split_alone(smollm2):
    # EricLBuehler/mistral.rs#397
    assert smollm2.tokenize("a1b22  333") == [81, 33, 82, 34, 34, 256, 35, 35, 35]


def test_a_nul_in_a_prompt_is_a_byte_like_any_other(smollm2):
    # ggml-org/llama.cpp#25543
    assert smollm2.tokenize("ab\0cd") == [369, 190, 13133]
    assert smollm2.tokenize("x\0\0 y") == [104, 190, 190, 329]
    assert smollm2.detokenize([369, 190, 13133]) == "ab\0cd"
    (header,) = events(smollm2, "ab\0cd", headrace.Header, max_tokens=1)
    assert header.prompt_token_count == 3
    chat = smollm2._inference.ApplyChatTemplate(generation_pb2.ApplyChatTemplateRequest(
        chat=generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="user", content="ab\0cd")])))
    assert "ab\0cd" in chat.text and chat.text.endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize("prompt", ["", []])
def test_an_empty_prompt_is_refused_by_name(smollm2, prompt):
    # ggml-org/llama.cpp#5953
    fields = violations(lambda: list(smollm2.generate(prompt, max_tokens=1)))
    assert any(field.startswith(("prompt", "text", "tokens")) for field in fields)
    assert smollm2.tokenize("") == []


def test_ids_out_of_range_are_all_named_and_harm_nobody(smollm2):
    # vllm-project/vllm#51795
    alone = ids(smollm2, FRANCE, max_tokens=8, temperature=0)
    fields = violations(lambda: list(smollm2.generate(
        [504, 49152], max_tokens=1, stop_token_ids=[4294967295], logit_bias={49152: 1.0},
        logprobs=generation_pb2.LogprobsOptions(of_token_ids=[49152]))))
    assert len(fields) == 4, fields
    assert ids(smollm2, FRANCE, max_tokens=8, temperature=0) == alone
    assert ids(smollm2, [504, 49151], max_tokens=1, stop_token_ids=[49151], logit_bias={49151: 1.0})


@pytest.mark.parametrize("options", [{"top_p": 1e-8}, {"min_p": 1.0}, {"top_k": 1}, {"temperature": 1e-45}])
def test_filters_that_leave_one_token_are_greedy(smollm2, options):
    # ml-explore/mlx-lm#1912
    assert ids(smollm2, FRANCE, **{"temperature": 1, "seed": 1, "max_tokens": 8, **options}) == GREEDY


def test_top_k_beyond_the_vocabulary_is_off(smollm2):
    base = ids(smollm2, FRANCE, temperature=1, seed=1, max_tokens=8)
    for top_k in (0, 1_000_000):
        assert ids(smollm2, FRANCE, temperature=1, seed=1, max_tokens=8, top_k=top_k) == base


def test_penalties_count_what_they_say(smollm2):
    # huggingface/transformers#2302
    prompt = "The cat sat on the mat. The cat sat on the"
    run = lambda **options: ids(smollm2, prompt, temperature=0, max_tokens=14, **options)
    assert len(smollm2.tokenize(prompt)) == 12
    assert run()[:4] == [1171, 30, 378, 2644]
    assert run(repetition_penalty=1.1) == [1171, 28, 284, 357, 436, 253, 3953, 1194, 30, 198, 198, 788, 451, 1977]
    frequency = run(frequency_penalty=1.0)
    assert frequency[-8:] == [260, 1171, 30, 198, 198, 788, 451, 1183]
    assert run(presence_penalty=1.0) == frequency


def test_every_bad_parameter_is_named_at_once(smollm2):
    # ohdearquant/lattice#297
    nan, inf = float("nan"), float("inf")
    fields = violations(lambda: list(smollm2.generate(
        FRANCE, max_tokens=1, temperature=nan, top_p=nan, min_p=1.5, typical_p=-1.0, repetition_penalty=0.0,
        presence_penalty=inf, logit_bias={5: nan}, stop_strings=["", "ok"], seed=3, time_limit=-1.0,
        context_extension=context_extension_pb2.ContextExtension(rope_scaling=context_extension_pb2.RopeScaling(
            linear=context_extension_pb2.LinearScaling(factor=nan))))))
    assert len(fields) == 10, fields
    assert {"sampling.temperature", "sampling.top_p", "stop.stop_strings[0]", "stop.time_limit"} <= fields


def test_negative_zero_and_denormal_temperatures_are_greedy(smollm2):
    for temperature in (-0.0, 5e-324):
        assert ids(smollm2, FRANCE, temperature=temperature, max_tokens=8) == GREEDY


def test_one_request_leaves_nothing_to_the_next(smollm2):
    # ikawrakow/ik_llama.cpp#2475
    chat = [{"role": "user", "content": "hi"}]
    expected = [19556, 665, 17, 1073, 416, 339, 4237, 346, 1834, 47, 2]
    assert ids(smollm2, chat, temperature=0) == expected
    ids(smollm2, chat, temperature=1.3, seed=3, ignore_eos=True, max_tokens=20, repetition_penalty=1.3,
        logit_bias={2: -100.0, 19556: -100.0})
    assert ids(smollm2, chat, temperature=0) == expected
    assert 19556 not in ids(smollm2, chat, temperature=0, max_tokens=20, logit_bias={19556: -100.0})


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


def test_choices_of_one_seed_differ_and_come_again(smollm2):
    def choices():
        out = {}
        for e in events(smollm2, FRANCE, headrace.Token, temperature=1, seed=5, max_tokens=10, n=3):
            out.setdefault(e.choice, []).append(e.id)
        return out
    first = choices()
    assert sorted(first) == [0, 1, 2] and len({tuple(c) for c in first.values()}) == 3
    assert choices() == first


def test_prompt_logprobs_are_there_and_max_tokens_0_makes_none(smollm2):
    # ggml-org/llama.cpp#27174
    prompt = "The capital of France is Paris."
    options = dict(max_tokens=0, logprobs=generation_pb2.LogprobsOptions(prompt=True))
    stream = list(smollm2.generate(prompt, **options))
    scored = [e for e in stream if isinstance(e, headrace.PromptLogprobs)]
    assert [e.token.id for e in scored] == [3575, 282, 4649, 314, 7042, 30]
    # transformers' float32, at half a unit of the last digit printed and then some.
    np.testing.assert_allclose([e.token.logprob for e in scored],
                               [-11.5393, -0.33762, -2.43866, -0.45095, -0.25808, -0.38014], atol=1e-3)
    assert [e.token.rank for e in scored] == [2923, 1, 2, 1, 1, 1]
    (end,) = [e for e in stream if isinstance(e, headrace.ChoiceEnd)]
    assert end.generated == 0 and end.finish_reason == generation_pb2.FINISH_REASON_MAX_TOKENS
    for max_tokens in (1, 5):
        assert len(ids(smollm2, prompt, max_tokens=max_tokens, ignore_eos=True)) == max_tokens
    forward = smollm2._inference.Forward(generation_pb2.ForwardRequest(
        text=prompt, logprobs=generation_pb2.LogprobsOptions(prompt=True)))
    assert [r.logprobs.token.logprob for r in forward if r.HasField("logprobs")] == \
        [e.token.logprob for e in scored]


def test_rows_and_pooled_embeddings_are_the_same_numbers(smollm2):
    # huggingface/text-embeddings-inference#278
    prompt = "The capital of France is"
    _, cache = smollm2.run_with_cache(prompt, hooks=["embed", "resid_pre", "resid_post", "final_norm_out"])
    square = lambda row: float(np.sum(row.astype(np.float64) ** 2))
    post = lambda layer: cache[f"blocks.{layer}.hook_resid_post"]
    assert cache["hook_embed"][0][0] == pytest.approx(0.109604, abs=1e-6)
    np.testing.assert_array_equal(cache["blocks.0.hook_resid_pre"], cache["hook_embed"])
    assert post(0)[4][0] == pytest.approx(2.225247, abs=1e-5)
    # float32 against float32 of transformers: 2e-5 of the row.
    assert square(post(0)[4]) == pytest.approx(1238.614, rel=4e-5)
    assert square(post(28)[-1]) == pytest.approx(443614.836, rel=4e-5)
    assert post(29)[-1][0] == pytest.approx(-14.283396, abs=2e-3)
    assert square(post(29)[-1]) == pytest.approx(383464.914, rel=4e-5)
    final = cache["final_norm_out"]
    assert square(final[-1]) == pytest.approx(1917.758, rel=1e-4)
    mean = final.astype(np.float64).sum(axis=0) / len(final)
    embed = lambda **options: np.frombuffer(smollm2._inference.Embed(generation_pb2.EmbedRequest(
        inputs=[generation_pb2.EmbedInput(text=prompt)], **options)).data, np.float32)
    np.testing.assert_array_equal(embed(), mean.astype(np.float32))
    np.testing.assert_array_equal(embed(pooling=generation_pb2.POOLING_LAST), final[-1])
    np.testing.assert_array_equal(
        embed(pooling=generation_pb2.POOLING_LAST, hook=activations_pb2.HOOK_POINT_RESID_POST, layer=-1), post(29)[-1])


def test_watching_changes_no_token_and_no_bit(smollm2):
    options = dict(max_tokens=8, temperature=0, logprobs=generation_pb2.LogprobsOptions(top_n=3))
    plain = [(e.id, e.logprob) for e in events(smollm2, FRANCE, headrace.Token, **options)]
    capture = activations_pb2.CaptureSpec(
        hooks=[activations_pb2.HookSelector(hook=activations_pb2.HOOK_POINT_RESID_POST, all=True)],
        rows=activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True),
                                         generated=activations_pb2.PhaseRows(all=True)), checks=True)
    watched = list(smollm2.generate(FRANCE, capture=capture, **options))
    assert [(e.id, e.logprob) for e in watched if isinstance(e, headrace.Token)] == plain
    checks = watched[-1].checks
    assert checks.rows_checked == len(FRANCE) + 7
    assert checks.resid_mid_checked == 30 * checks.rows_checked
    assert checks.resid_mid_failed == checks.resid_post_failed == 0


def test_unary_replies_beyond_4_mib_are_refused_with_their_size(smollm2):
    # epigramai/tfserving-python-predict-client#10
    with pytest.raises(headrace.HeadraceError) as caught:
        smollm2.tokenize("1 " * 600_000)
    assert caught.value.code in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INVALID_ARGUMENT)
    assert any(character.isdigit() for character in str(caught.value))
    assert smollm2.tokenize("ok")


def test_a_scaled_request_keeps_the_models_own_base(smollm2):
    # ggml-org/llama.cpp#17459
    extension = context_extension_pb2.ContextExtension(
        rope_scaling=context_extension_pb2.RopeScaling(linear=context_extension_pb2.LinearScaling(factor=2)))
    (header,) = events(smollm2, FRANCE, headrace.Header, max_tokens=1, context_extension=extension)
    assert header.rope.rope_theta == 100000
    assert header.rope.inv_freqs[1] == pytest.approx(0.3489152924, rel=1e-9)


def test_a_conversation_may_continue_its_last_message(smollm2):
    # vllm-project/vllm#8942
    def render(**options):
        chat = generation_pb2.Chat(**options)
        chat.messages.add(role="user", content="Say A")
        chat.messages.add(role="assistant", content="The answer is")
        return smollm2._inference.ApplyChatTemplate(generation_pb2.ApplyChatTemplateRequest(chat=chat)).text
    assert render().endswith("The answer is<|im_end|>\n<|im_start|>assistant\n")
    assert render(continue_final_message=True).endswith("The answer is")
    with pytest.raises(grpc.RpcError) as caught:
        render(continue_final_message=True, add_generation_prompt=True)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
