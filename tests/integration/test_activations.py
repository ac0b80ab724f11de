"""Rows of the residual stream of SmolLM2-135M in exact numerics, against
transformers on the dequantised weights, in float32."""
import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2, generation_pb2

PROMPT = "The capital of France is"
FRANCE = [504, 3575, 282, 4649, 314]


def squares(row):
    return float(np.sum(row.astype(np.float64) ** 2))


def test_rows_are_those_of_transformers_under_their_own_names(smollm2):
    # eastriverlee/LLM.swift#87, EleutherAI/sparsify#11, ggml-org/llama.cpp#27073, ggml-org/llama.cpp#20785;
    # ndif-team/nnsight#337, ndif-team/nnsight#630: an engine's own residual, or one that was changed in place.
    _, cache = smollm2.run_with_cache(PROMPT, hooks=["embed", "resid_pre", "resid_post", "final_norm_out"])
    post = lambda layer: cache[f"blocks.{layer}.hook_resid_post"]
    assert list(cache.rows.token) == FRANCE
    assert cache["hook_embed"][0][0] == pytest.approx(0.109604, abs=1e-6)
    np.testing.assert_array_equal(cache["blocks.0.hook_resid_pre"], cache["hook_embed"])
    assert post(0)[4][0] == pytest.approx(2.225247, abs=1e-5)
    # float32 against float32 of transformers: 2e-5 of the row.
    assert squares(post(0)[4]) == pytest.approx(1238.614, rel=4e-5)
    assert squares(post(28)[-1]) == pytest.approx(443614.836, rel=4e-5)
    assert post(29)[-1][0] == pytest.approx(-14.283396, abs=2e-3)
    assert squares(post(29)[-1]) == pytest.approx(383464.914, rel=4e-5)
    final = cache["final_norm_out"]
    assert final[-1][0] == pytest.approx(-0.973089, abs=1e-3)
    assert squares(final[-1]) == pytest.approx(1917.758, rel=1e-4)
    mean = final.astype(np.float64).sum(axis=0) / len(final)
    assert mean[0] == pytest.approx(-0.926406, abs=1e-3)
    assert squares(mean) == pytest.approx(1253.375, rel=1e-4)


def test_pooled_embeddings_are_the_rows_that_they_name(smollm2, smollm2_address):
    # huggingface/text-embeddings-inference#278, mozilla-ai/llamafile#747
    _, cache = smollm2.run_with_cache(PROMPT, hooks=["resid_post", "final_norm_out"])
    final = cache["final_norm_out"]
    mean = final.astype(np.float64).sum(axis=0) / len(final)  # in order of position

    def embed(**options):
        request = generation_pb2.EmbedRequest(inputs=[generation_pb2.EmbedInput(text=PROMPT)], **options)
        return np.frombuffer(smollm2_address.inference.Embed(request).data, np.float32)

    np.testing.assert_array_equal(embed(), mean.astype(np.float32))
    np.testing.assert_array_equal(embed(pooling=generation_pb2.POOLING_LAST), final[-1])
    for layer in (0, -1):
        np.testing.assert_array_equal(
            embed(pooling=generation_pb2.POOLING_LAST, hook=activations_pb2.HOOK_POINT_RESID_POST, layer=layer),
            cache[f"blocks.{layer % 30}.hook_resid_post"][-1])
    assert squares(embed(normalize=True)) == pytest.approx(1, abs=1e-6)


def test_watching_changes_no_token_and_no_bit(smollm2):
    # vllm-project/vllm#4435, vllm-project/vllm#6165, vllm-project/vllm#24288, vllm-project/vllm#15434,
    # vllm-project/vllm#7892: rows beside the text of one call.
    options = dict(max_tokens=8, temperature=0, logprobs=generation_pb2.LogprobsOptions(top_n=3))
    plain = [(e.id, e.logprob) for e in smollm2.generate(FRANCE, **options) if isinstance(e, headrace.Token)]
    capture = activations_pb2.CaptureSpec(
        hooks=[activations_pb2.HookSelector(hook=activations_pb2.HOOK_POINT_RESID_POST, all=True)],
        rows=activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True),
                                         generated=activations_pb2.PhaseRows(all=True)), checks=True)
    watched = list(smollm2.generate(FRANCE, capture=capture, **options))
    assert [(e.id, e.logprob) for e in watched if isinstance(e, headrace.Token)] == plain
    checks = watched[-1].checks
    assert checks.rows_checked == len(FRANCE) + 7
    assert checks.resid_mid_checked == checks.resid_post_checked == 30 * checks.rows_checked
    assert checks.resid_mid_failed == checks.resid_post_failed == 0
