"""Looking into the residual stream and changing it, against a running server."""
import numpy as np
import pytest

import headrace
from headrace import interventions
from headrace.v1 import activations_pb2

TOKENS = [75, 104, 111, 20, 31]
BUS = ["embed", "resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post", "attn_norm_scale", "mlp_norm_scale",
       "final_norm_scale"]


@pytest.fixture(scope="module")
def cached(client):
    return client.run_with_cache(TOKENS, hooks=BUS)


def test_the_writes_sum_up_to_the_residual_stream(client, cached):
    # TransformerLensOrg/TransformerLens#1639, ndif-team/nnterp#51: a "write" that was a whole residual stream.
    _, cache = cached
    layers = client.get_model().num_hidden_layers
    writes, labels = cache.decompose_resid(return_labels=True)
    assert len(labels) == 1 + 2 * layers and labels[:3] == ["embed", "0_attn_out", "0_mlp_out"]
    final = cache[f"blocks.{layers - 1}.hook_resid_post"]
    # A float32 sum of 61 rows, relative to the largest value.
    np.testing.assert_allclose(writes.astype(np.float64).sum(0), final, atol=2e-6 * np.abs(final).max())
    stack, labels = cache.accumulated_resid(incl_mid=True, return_labels=True)
    assert labels[0] == "0_pre" and labels[1] == "0_mid" and labels[-1] == "final_post"
    np.testing.assert_array_equal(stack[0], cache["hook_embed"])
    np.testing.assert_array_equal(stack[-1], final)


def test_apply_ln_divides_by_the_norm_that_would_read_it(client, cached):
    # TransformerLensOrg/TransformerLens#1076: every layer was divided by the final norm's scale.
    _, cache = cached
    for layer in (None, 2):
        stack = cache.accumulated_resid(layer, incl_mid=True, apply_ln=True).astype(np.float64)
        # Root mean squares of 1, but for epsilon and float32's rounding.
        plain = cache.accumulated_resid(layer, incl_mid=True).astype(np.float64)
        mean_square = (plain ** 2).mean(-1, keepdims=True)
        np.testing.assert_allclose(stack, plain / np.sqrt(mean_square + 1e-5), rtol=1e-5)
        parts = cache.decompose_resid(layer, apply_ln=True).astype(np.float64).sum(0)
        np.testing.assert_allclose(parts, stack[-1], atol=1e-5 * np.abs(stack[-1]).max())
    assert (np.abs(stack[0]).max(-1) > 2 * np.abs(plain[0] / cache["ln_final.hook_scale"]).max(-1)).all()


def test_the_last_layer_captured_is_not_taken_for_the_models_last(client):
    # lightseekorg/TorchSpec#87: is it N - 1 or N?
    layers = client.get_model().num_hidden_layers
    hooks = ["embed", "resid_pre", "attn_out", "mlp_out", "resid_post"]
    _, cache = client.run_with_cache(TOKENS, hooks=hooks, layers=[0, 1])
    for incomplete in (cache.accumulated_resid, cache.decompose_resid):
        with pytest.raises(KeyError, match=r"'blocks\.2\..*was not captured"):
            incomplete()
    assert len(cache.accumulated_resid(1)) == 2
    _, last = client.run_with_cache(TOKENS, layers=[-1])
    assert set(last) == {f"blocks.{layers - 1}.hook_resid_post", "logits"}
    with pytest.raises(headrace.InvalidArgumentError, match=f"{layers}"):
        client.run_with_cache(TOKENS, layers=[layers])


def test_transformer_lens_names_name_hooks(client):
    _, cache = client.run_with_cache(TOKENS, hooks=["hook_resid_post", "attn.hook_z"], layers=[0])
    assert set(cache) == {"blocks.0.hook_resid_post", "blocks.0.attn.hook_z", "logits"}
    with pytest.raises(ValueError, match="there is no hook 'hook_nothing'"):
        client.run_with_cache(TOKENS, hooks=["hook_nothing"])


@pytest.mark.parametrize("dtype, step", [("bf16", 2.0**-8), ("f16", 2.0**-11), ("int8", 0.5 / 127)])
def test_narrow_rows_are_close(client, cached, dtype, step):
    _, narrow = client.run_with_cache(TOKENS, hooks=["resid_mid"], layers=[1], dtype=dtype)
    exact = cached[1]["blocks.1.hook_resid_mid"]
    got = narrow["blocks.1.hook_resid_mid"]
    assert got.dtype == np.float32 and got.flags.writeable
    # Half a step of the type: relative for floats, of the row's largest value for int8.
    limit = np.abs(exact).max(-1, keepdims=True) if dtype == "int8" else np.abs(exact)
    assert (np.abs(got - exact) <= step * limit * 1.01 + 1e-7).all()


def test_the_lens_ends_in_the_models_own_distribution(client, cached):
    logits, cache = cached
    lens = client.logit_lens(TOKENS, top_k=3, tokens=[65, 66])
    layers = client.get_model().num_hidden_layers
    assert lens.layers == list(range(layers)) and list(lens.positions) == [0, 1, 2, 3, 4]
    assert lens.ids.shape == (layers, 5, 3)
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    logprobs = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    order = np.argsort(-logprobs, axis=-1, kind="stable")[:, :3]
    np.testing.assert_array_equal(lens.ids[-1], order)
    # Float32 logarithms.
    np.testing.assert_allclose(lens.logprobs[-1], np.take_along_axis(logprobs, order, -1), atol=5e-6)
    np.testing.assert_allclose(lens.token_logprobs[-1], logprobs[:, [65, 66]], atol=5e-6)
    np.testing.assert_array_equal(lens.token_ranks[-1], 1 + (logprobs[:, None, :] > logprobs[:, [65, 66], None]).sum(-1))


@pytest.mark.parametrize("by_head", [False, True])
def test_attributions_sum_up_to_the_logits(client, cached, by_head):
    logits, _ = cached
    attribution = client.logit_attrs(TOKENS, [65, 66], by_head=by_head)
    model = client.get_model()
    assert len(attribution.labels) == 1 + model.num_hidden_layers * ((model.num_attention_heads if by_head else 1) + 1)
    np.testing.assert_array_equal(attribution.logits, logits[:, [65, 66]])
    size = np.abs(attribution.values).sum(-1)
    # The server is exact: what is left is float32 rounding.
    np.testing.assert_allclose(attribution.values.sum(-1) + attribution.residue, attribution.logits, atol=1e-5 * size.max())
    assert (np.abs(attribution.residue) <= 1e-5 * size).all()
    contrast = client.logit_attrs(TOKENS, [65], contrast=[66], by_head=by_head)
    np.testing.assert_allclose(contrast.values[:, 0], attribution.values[:, 0] - attribution.values[:, 1],
                               atol=1e-5 * size.max())


def test_interventions_do_what_they_say(client, cached):
    width = client.get_model().hidden_size
    rng = np.random.default_rng(1)
    direction = rng.standard_normal(width).astype(np.float32)
    plain = cached[1]["blocks.0.hook_resid_post"]

    def steered(intervention):
        _, cache = client.run_with_cache(TOKENS, hooks=["resid_post"], layers=[0], interventions=[intervention])
        return cache["blocks.0.hook_resid_post"]

    at = dict(layers=[0])
    np.testing.assert_array_equal(steered(interventions.add("resid_post", direction, coefficient=2, **at)),
                                  plain + 2 * direction)
    np.testing.assert_array_equal(steered(interventions.scale("resid_post", 0.5, **at)), plain * np.float32(0.5))
    np.testing.assert_array_equal(steered(interventions.zero("resid_post", **at)), np.zeros_like(plain))
    np.testing.assert_array_equal(steered(interventions.replace("resid_post", direction, **at)),
                                  np.tile(direction, (5, 1)))
    unit = direction / np.linalg.norm(direction)
    left = steered(interventions.project_out("resid_post", direction, **at)) @ unit
    np.testing.assert_allclose(left, 0, atol=1e-5 * np.abs(plain).max())
    capped = steered(interventions.cap("resid_post", direction, -1.0, **at)) @ unit
    np.testing.assert_allclose(capped, np.minimum(plain @ unit, -1.0), atol=1e-5 * np.abs(plain).max())


@pytest.mark.parametrize("hook, unchecked", [
    ("embed", 0), ("resid_pre", 0), ("attn_out", 0), ("resid_mid", 2), ("mlp_out", 0), ("resid_post", 2)])
def test_the_stream_adds_up_when_it_is_steered(client, hook, unchecked):
    # TransformerLensOrg/TransformerLens#523, TransformerLensOrg/TransformerLens#1648: with what was added beside it.
    model = client.get_model()
    layers = model.num_hidden_layers
    steer = interventions.add(hook, np.linspace(-1, 1, model.hidden_size), coefficient=2,
                              layers="all" if hook == "embed" else [1, -1])
    _, cache = client.run_with_cache(TOKENS, hooks=BUS, interventions=[steer], checks=True)
    assert cache.checks.resid_mid_failed == cache.checks.resid_post_failed == 0
    assert cache.verify() == (2 * layers - unchecked) * len(TOKENS)
    for layer in (None, 2):
        writes, labels = cache.decompose_resid(layer, return_labels=True)
        stream = cache.accumulated_resid(layer)[-1]
        # A float32 sum of 61 rows, relative to the largest value.
        np.testing.assert_allclose(writes.astype(np.float64).sum(0), stream, atol=2e-6 * np.abs(stream).max())
        assert ("interventions" in labels) == hook.startswith("resid_")
    cache["blocks.0.hook_resid_mid"][0, 0] += 1
    with pytest.raises(headrace.VerificationError):
        cache.verify()


def test_layers_of_interventions_are_the_servers(client):
    names = client._names()
    count = client.get_model().num_hidden_layers
    change = interventions.zero("resid_post")
    assert len(names.steered([change])) == count
    for begin, end, layers in ((1, 3, [1, 2]), (-2, 0, [count - 2, count - 1]), (0, 2 - count, [0, 1]),
                               (-2, -1, [count - 2])):
        change.where.ClearField("ranges")
        change.where.ranges.add(begin=begin, end=end)
        assert names.steered([change]) == {f"blocks.{layer}.hook_resid_post" for layer in layers}
        ends = list(client.generate(TOKENS, max_tokens=0, interventions=[change]))
        assert list(ends[-1].interventions_applied) == [len(layers) * len(TOKENS)]


def test_applied_counts_come_back(client):
    last = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(last=True))
    never = activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(token_ids=[9]))
    events = list(client.generate(TOKENS, max_tokens=3, temperature=0, ignore_eos=True, interventions=[
        interventions.zero("z", layers=[0]), interventions.scale("mlp_out", 2.0, layers=[0, 1], rows=last),
        interventions.zero("resid_mid", rows=never)]))
    assert list(events[-1].interventions_applied) == [5 + 2, 2, 0]


def test_bad_interventions_are_named(client):
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        client.generate_text(TOKENS, max_tokens=1, interventions=[
            interventions.add("resid_post", np.ones(3)), interventions.zero("logits")])
    assert {v.field for v in caught.value.field_violations} == {
        "interventions[0].add.vector.f32", "interventions[1].where.hook"}
    with pytest.raises(ValueError, match="one dimension"):
        interventions.add("resid_post", np.ones((2, 3)))
    with pytest.raises(ValueError, match="there is no hook 'residual'"):
        interventions.zero("residual")
