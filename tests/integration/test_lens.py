"""headrace lens: its numbers, and its page in a real browser."""
import html
import json

import numpy as np
import pytest

FRANCE = "The capital of France is"


@pytest.fixture(scope="module")
def lens(command_line, smollm2_address):
    def run(*flags):
        return command_line(smollm2_address, "lens", "--prompt", FRANCE, *flags, check=True, text=True).stdout

    return run


@pytest.fixture(scope="module")
def report(lens):
    return json.loads(lens("--json"))


def test_each_layer_has_a_prediction_for_each_position(report):
    assert [t["text"] for t in report["tokens"]] == ["The", " capital", " of", " France", " is"]
    assert len(report["lens"]) == len(report["norms"]) == 30
    assert len(report["cosines"]) == 29
    for layer in report["lens"]:
        for cell in layer:
            logprobs = [token["logprob"] for token in cell]
            assert len(cell) == 5 and logprobs == sorted(logprobs, reverse=True) and logprobs[0] <= 0


def test_the_last_layer_predicts_what_the_model_generates(report):
    # transformers, float32, on the dequantised weights: " Paris", log probability -0.25808 after six tokens;
    # here after five.
    assert report["lens"][29][4][0]["text"] == " Paris"
    assert report["attribution"]["text"] == " Paris"


def test_the_parts_of_the_logit_sum_up_to_it(report):
    attribution = report["attribution"]
    parts = {part["name"]: part["value"] for part in attribution["parts"]}
    assert len(parts) == 1 + 2 * 30 + 1
    total = sum(parts.values())
    # 62 values printed as float32.
    assert total == pytest.approx(attribution["logit"], abs=1e-4)
    # Float32 throughout: what is left over is rounding.
    assert abs(parts["residue"]) < 1e-3


def test_norms_and_cosines_are_those_of_the_rows(report, smollm2):
    _, cache = smollm2.run_with_cache(FRANCE, hooks=["resid_post"])
    rows = np.stack([cache[f"blocks.{layer}.hook_resid_post"] for layer in range(30)]).astype(np.float64)
    norms = np.linalg.norm(rows, axis=-1)
    np.testing.assert_allclose(report["norms"], norms, rtol=1e-6)
    cosines = (rows[1:] * rows[:-1]).sum(-1) / (norms[1:] * norms[:-1])
    np.testing.assert_allclose(report["cosines"], cosines, atol=1e-6)


def test_every_layer_is_seen_through_its_own_statistics(stories):
    # TransformerLensOrg/TransformerLens#1076: the final norm's scale made the early layers look uniform.
    prompt = [1, 403, 407, 261, 378, 432]
    hooks = ["resid_pre", "resid_post", "attn_norm_scale", "final_norm_scale", "final_norm_out"]
    _, cache = stories.run_with_cache(prompt, hooks=hooks)
    _, everything = stories.run_with_cache(list(range(512)), hooks=["embed"])
    final = cache.accumulated_resid(apply_ln=True)[-1].astype(np.float64)
    gain = (cache["final_norm_out"] * final).sum(0) / (final ** 2).sum(0)
    unembed = gain[:, None] * everything["hook_embed"].astype(np.float64).T  # the model's two ends are tied

    def logprobs(rows):
        logits = rows.astype(np.float64) @ unembed
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))

    wanted = list(range(0, 512, 6))  # 86 of them
    for hook, first in (("resid_pre", 0), ("resid_post", 1)):
        lens = stories.logit_lens(prompt, hook=hook, top_k=1, tokens=wanted)
        stack = cache.accumulated_resid(apply_ln=True)[first:first + 5]
        # Float32 products and logarithms.
        np.testing.assert_allclose(lens.token_logprobs, logprobs(stack)[..., wanted], atol=2e-4)
        np.testing.assert_array_equal(lens.ids[..., 0], logprobs(stack).argmax(-1))
        shrunk = cache.accumulated_resid()[first:first + 5] / cache["ln_final.hook_scale"]
        assert np.abs(lens.token_logprobs - logprobs(shrunk)[..., wanted])[0].max() > 0.5


def test_the_page_shows_it_in_a_browser(lens, in_browser, tmp_path):
    page = tmp_path / "lens.html"
    lens("--html", str(page))
    dom = in_browser(page)
    table = dom[dom.index("<tbody>"):dom.index("</tbody>")]
    assert table.count("<tr>") == 30
    assert table.count("<td") == 30 * 5
    assert html.unescape(table).count("␣Paris") >= 1
    assert "What made “␣Paris” the prediction" in html.unescape(dom)
    for figure in ("norms", "cosines", "parts"):
        drawing = dom[dom.index(f'<svg id="{figure}"'):]
        drawing = drawing[:drawing.index("</svg>")]
        assert drawing.count("<path") == 5 or drawing.count("<rect") == 62, figure
    # The last cell is chosen to begin with, and its five tokens are listed.
    detail = dom[dom.index('<div id="detail"'):]
    assert "layer 29, position 4" in detail and detail[:detail.index("<h2>")].count('class="bar"') == 5
