"""Vectors and rows that stay on the server, by both clients."""
import asyncio
import hashlib

import numpy as np
import pytest

import headrace
from headrace import derived, interventions

TOKENS = [75, 104, 111, 20, 31]
OTHER = [9, 8, 7, 6, 5]


@pytest.fixture(params=["sync", "aio"])
def call(request, client, address):
    """call(f): f(client), awaited where the client has to be."""
    if request.param == "sync":
        return lambda use: use(client)

    def awaited(use):
        async def main():
            async with headrace.aio.Client(address) as aio:
                return await use(aio)

        return asyncio.run(main())

    return awaited


def keep(client, tokens, hooks, **options):
    capture = headrace.capture(hooks, keep=headrace.KeepRows(time_to_live=60), **options)
    *others, end = client.forward(tokens, capture=capture)
    assert not any(isinstance(event, headrace.ActivationChunk) for event in others)
    return end.kept.handle


def test_a_vector_is_put_and_named_by_its_content(client, call):
    direction = np.linspace(-1, 1, client.get_model().hidden_size).astype(np.float32)
    put = call(lambda c: c.put_vector(direction, time_to_live=60))
    assert put.sha256 == hashlib.sha256(direction.tobytes()).hexdigest() and 0 < put.expires_in <= 60
    found = call(lambda c: c.get_vector(put.sha256))
    np.testing.assert_array_equal(found.values, direction)
    assert found.blocks == [] and found.value_count == len(direction)
    assert call(lambda c: c.get_vector(put.sha256, without_values=True)).values is None

    for change in (lambda v: interventions.add("resid_post", v, layers=[1], coefficient=2.5),
                   lambda v: interventions.project_out("resid_mid", v), lambda v: interventions.replace("z", v),
                   lambda v: interventions.cap("resid_pre", v, 0.5)):
        named = call(lambda c: c.run_with_cache(TOKENS, interventions=[change(put.sha256)]))[0]
        inline = call(lambda c: c.run_with_cache(TOKENS, interventions=[change(direction)]))[0]
        np.testing.assert_array_equal(named, inline)

    assert call(lambda c: c.delete_vector(put.sha256)) is None
    with pytest.raises(headrace.NotFoundError):
        call(lambda c: c.get_vector(put.sha256))
    with pytest.raises(headrace.InvalidArgumentError):
        call(lambda c: c.put_vector([np.nan]))


def test_rows_of_one_run_replace_those_of_another(client, call):
    handle = keep(client, TOKENS, ["resid_post", "attn_out"], layers=[1, 2])
    stored = call(lambda c: c.get_vector(handle))
    _, cache = client.run_with_cache(TOKENS, hooks=["resid_post", "attn_out"], layers=[1, 2])
    assert [(b.hook, b.layer, b.positions.tolist()) for b in stored.blocks] == [
        ("attn_out", 1, [0, 1, 2, 3, 4]), ("attn_out", 2, [0, 1, 2, 3, 4]),
        ("resid_post", 1, [0, 1, 2, 3, 4]), ("resid_post", 2, [0, 1, 2, 3, 4])]
    np.testing.assert_array_equal(stored.blocks[3].values, cache["blocks.2.hook_resid_post"])
    assert stored.values is None

    whole = interventions.replace("resid_post", interventions.rows_from(handle), layers=[2])
    logits, _ = call(lambda c: c.run_with_cache(OTHER, interventions=[whole]))
    np.testing.assert_array_equal(logits[0], client.run_with_cache(TOKENS)[0][0])

    source = interventions.rows_from(handle, hook="attn_out", layer=1, offset=2)
    moved = interventions.replace("mlp_out", source, layers=[0], rows=headrace.rows(prompt=[1, 2]))
    _, changed = call(lambda c: c.run_with_cache(OTHER, hooks=["mlp_out"], layers=[0], interventions=[moved]))
    np.testing.assert_array_equal(changed["blocks.0.hook_mlp_out"][1:3], cache["blocks.1.hook_attn_out"][3:5])
    client.delete_vector(handle)


def test_rows_are_kept_and_sent(client):
    capture = headrace.capture(["resid_post"], layers=[1], rows=headrace.rows(prompt="last", generated="all"),
                               keep=headrace.KeepRows(send=True))
    events = list(client.generate(TOKENS, max_tokens=4, temperature=0, ignore_eos=True, capture=capture))
    sent = b"".join(event.data for event in events if isinstance(event, headrace.ActivationChunk))
    kept = client.get_vector(events[-1].kept.handle)
    assert kept.blocks[0].positions.tolist() == [4, 5, 6, 7]
    assert kept.blocks[0].values.tobytes() == sent
    client.delete_vector(kept.sha256)


def test_quantities_are_computed_from_rows(client, call):
    rng = np.random.default_rng(5)
    vectors = rng.standard_normal((2, client.get_model().hidden_size)).astype(np.float32)
    name = client.put_vector(vectors[1], time_to_live=60).sha256
    specs = [derived.norm("resid_post"), derived.projection("resid_post", [vectors[0], name], layers=[1, 3]),
             derived.cosine("resid_post", layers=[1, 2]), derived.mean("resid_post", layers=[0]),
             derived.logit_lens(top_k=0, tokens=[65], layers=[-1])]
    norm, projection, cosine, mean, lens = call(lambda c: c.derive(TOKENS, specs))
    logits, cache = client.run_with_cache(TOKENS)
    rows = np.stack([cache[f"blocks.{layer}.hook_resid_post"] for layer in norm.layers]).astype(np.float64)

    assert norm.positions.tolist() == [0, 1, 2, 3, 4] and mean.positions.tolist() == [4]
    np.testing.assert_allclose(norm.values[..., 0], np.linalg.norm(rows, axis=-1), rtol=1e-5)
    assert projection.layers == [1, 3] and cosine.layers == [2] and lens.layers == [len(norm.layers) - 1]
    expected = rows[[1, 3]] @ vectors.astype(np.float64).T
    np.testing.assert_allclose(projection.values, expected, atol=1e-5 * np.abs(expected).max())
    between = (rows[1] * rows[2]).sum(-1) / np.linalg.norm(rows[1], axis=-1) / np.linalg.norm(rows[2], axis=-1)
    np.testing.assert_allclose(cosine.values[0, :, 0], between, rtol=1e-5)
    np.testing.assert_allclose(mean.values[0, 0], rows[0].mean(0), rtol=1e-4, atol=1e-5)
    logprobs = logits - np.log(np.exp(logits.astype(np.float64)).sum(-1, keepdims=True))
    np.testing.assert_allclose(lens.values[0, :, 0], logprobs[:, 65], atol=1e-4)


def test_heads_query_rows_and_top_keys_of_attention(client, call):
    tokens = TOKENS * 4
    every = client.run_with_cache(tokens, hooks=["attn_probs"], layers=[2])[1]
    pattern = every["blocks.2.attn.hook_pattern"]
    assert every.heads["blocks.2.attn.hook_pattern"] == list(range(client.get_model().num_attention_heads))
    assert not every.key_positions

    chosen = headrace.hook("attn_probs", layers=[2], heads=[2, 0], top_keys=3)
    _, cache = call(lambda c: c.run_with_cache(tokens, hooks=[chosen], rows=headrace.rows(prompt=[7, 19])))
    name = "blocks.2.attn.hook_pattern"
    assert cache.heads[name] == [0, 2] and cache.rows.position.tolist() == [7, 19]
    assert cache[name].shape == cache.key_positions[name].shape == (2, 2, 3)
    for h, head in enumerate([0, 2]):
        for r, position in enumerate([7, 19]):
            row = pattern[head, position]
            assert cache[name][h, r].tolist() == sorted(row.tolist(), reverse=True)[:3]
            assert row[cache.key_positions[name][h, r]].tolist() == cache[name][h, r].tolist()


def test_choices_are_checked_before_any_call():
    for name in ("policy", "compression", "cached_rows", "dtype"):
        with pytest.raises(ValueError, match=f"{name} is 'no such'; it is one of"):
            headrace.capture(["resid_post"], **{name: "no such"})
    with pytest.raises(ValueError, match="there is no hook 'no_such'"):
        headrace.hook("no_such")
    with pytest.raises(ValueError, match="there is no hook 'no_such'"):
        interventions.rows_from("", hook="no_such")
