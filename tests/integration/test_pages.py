"""The pages of headrace trace and context-report, in a real browser."""
import html
import json
import re

import numpy as np

FRANCE = "The capital of France is"


def part(dom, start, end):
    begin = dom.index(start)
    return html.unescape(dom[begin:dom.index(end, begin)])


def test_a_trace_shows_norms_and_cosines(command_line, smollm2, smollm2_address, in_browser, tmp_path):
    page = tmp_path / "trace.html"
    command_line(smollm2_address, "trace", "--prompt", FRANCE, "--hooks", "resid_post,attn_out", "--layers", "3:9",
                 "--html", str(page), check=True)
    dom = in_browser(page)
    assert re.findall(r"<option[^>]*>([a-z_]+)", dom) == ["attn_out", "resid_post"]
    norms = part(dom, '<table id="norms"', "</table>")
    assert re.findall(r'<th scope="row">(\d+)', norms) == ["3", "4", "5", "6", "7", "8"]
    assert re.findall(r'<th scope="col">([^<]*)', norms)[1:] == ["0 The", "1 ␣capital", "2 ␣of", "3 ␣France", "4 ␣is"]
    _, cache = smollm2.run_with_cache(FRANCE, hooks=["attn_out"], layers=[3])
    shown = float(re.search(r"<td[^>]*>([0-9.e+]+)</td>", norms).group(1))
    assert np.isclose(shown, np.linalg.norm(cache["blocks.3.hook_attn_out"][0]), rtol=1e-2)  # three digits
    cosines = part(dom, '<table id="cosines"', "</table>")
    values = [float(value) for value in re.findall(r"<td[^>]*>(-?[0-9.]+)</td>", cosines)]
    assert len(values) == 36 and values[::7] == [1] * 6  # each layer with itself
    # The last cell is chosen to begin with.
    assert "layer 8, position 4 ␣is" in part(dom, '<div id="detail"', "</div>")


def test_a_trace_without_a_file_says_what_is_missing(command_line, smollm2_address):
    done = command_line(smollm2_address, "trace", "--prompt", "a", "--hooks", "resid_post", text=True)
    assert done.returncode != 0 and "--out FILE.npz or --html FILE is missing" in done.stderr


def test_a_context_report_draws_a_curve_for_each_method(command_line, smollm2_address, in_browser, tmp_path):
    text, page = tmp_path / "text", tmp_path / "report.html"
    text.write_text("Water flows down the race and turns the wheel. " * 12)
    flags = ["context-report", "--prompt_file", str(text), "--methods", "none,yarn", "--rope_factor", "4"]
    command_line(smollm2_address, *flags, "--html", str(page), check=True)
    report = json.loads(command_line(smollm2_address, *flags, "--json", check=True, text=True).stdout)
    dom = in_browser(page)
    drawing = part(dom, '<svg id="losses"', "</svg>")
    assert drawing.count("<path") == 2
    assert re.findall(r"<title>([a-z]+)</title>", drawing) == ["none", "yarn"]
    numbers = part(dom, '<table id="numbers"', "</table>")
    shown = [float(value) for value in re.findall(r"<td[^>]*>([0-9.]+)</td>", numbers)]
    np.testing.assert_allclose(shown, [loss for curve in report for loss in curve["mean_loss"]], atol=6e-4)
    assert "▬ none" in dom and "▬ yarn" in dom
