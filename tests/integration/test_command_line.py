"""The commands of `headrace` against a server of SmolLM2-135M."""
import json
import signal
import subprocess

import numpy as np
import pytest

import headrace
from servers import program

PROMPT = "The capital of France is"
FRANCE = [504, 3575, 282, 4649, 314]
GREEDY = [7042, 30, 198, 198, 504, 2988, 314, 42]


@pytest.fixture
def run(smollm2_address, command_line):
    """What a command prints; it must succeed, and say nothing else."""

    def run(command, *flags, **options):
        done = command_line(smollm2_address, command, *flags, text=True, **options)
        assert done.returncode == 0 and done.stderr == "", done
        return done.stdout

    return run


def test_generate_prints_the_text(run, smollm2):
    flags = ("--prompt", PROMPT, "--max_tokens", "8", "--temperature", "0")
    text = smollm2.generate_text(PROMPT, max_tokens=8, temperature=0)
    assert run("generate", *flags) == text + "\n"
    assert run("generate", "--tokens", ",".join(map(str, FRANCE)), *flags[2:]) == text + "\n"
    events = [json.loads(line) for line in run("generate", *flags, "--json").splitlines()]
    assert [next(iter(e)) for e in events] == ["header"] + 8 * ["token"] + ["choice_end", "end"]
    assert [e["token"]["id"] for e in events[1:9]] == GREEDY


def test_tokenize_and_detokenize_are_inverse(run):
    assert run("tokenize", "--prompt", PROMPT) == "504,3575,282,4649,314\n"
    assert run("detokenize", "--tokens", "504,3575,282,4649,314") == PROMPT + "\n"


def test_chat_keeps_its_history(run, smollm2):
    first = smollm2.generate_text([{"role": "user", "content": "hi"}], temperature=0, max_tokens=12)
    talk = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": first},
            {"role": "user", "content": "and?"}]
    second = smollm2.generate_text(talk, temperature=0, max_tokens=12)
    assert run("chat", "--temperature", "0", "--max_tokens", "12", input="hi\nand?\n") == f"{first}\n{second}\n"


def test_trace_writes_what_numpy_reads(smollm2, smollm2_address, command_line, tmp_path):
    out = tmp_path / "rows.npz"
    hooks = ["resid_pre", "attn_out", "resid_mid", "mlp_out", "resid_post", "logits"]
    done = command_line(smollm2_address, "trace", "--prompt", PROMPT, "--hooks", ",".join(hooks), "--rows", "all",
                        "--max_tokens", "4", "--temperature", "0", "--out", str(out), "--verify", text=True)
    assert done.returncode == 0, done
    assert done.stderr == f"verified {2 * 30 * 8} row identities exactly\n" and done.stdout == ""
    arrays = np.load(out)
    assert set(arrays.files) == {"tokens", "positions", "logits"} | {
        f"blocks.{layer}.hook_{hook}" for layer in range(30) for hook in hooks[:-1]}
    assert list(arrays["tokens"]) == FRANCE + GREEDY[:4]
    assert list(arrays["positions"]) == list(range(8))
    assert arrays["logits"].shape == (8, 49152)
    assert list(arrays["logits"].argmax(axis=1)[4:]) == GREEDY[:4]
    _, cache = smollm2.run_with_cache(PROMPT, hooks=["resid_post"])
    for layer in range(30):
        rows = arrays[f"blocks.{layer}.hook_resid_post"]
        assert rows.dtype == np.float32 and rows.shape == (8, 576)
        np.testing.assert_array_equal(rows[:5], cache[f"blocks.{layer}.hook_resid_post"])


def test_estimate_says_what_a_trace_delivers(run, smollm2_address, command_line, tmp_path):
    flags = ("--prompt", PROMPT, "--hooks", "resid_post,logits", "--layers", "0,-1", "--rows", "all",
             "--max_tokens", "4")
    estimate = json.loads(run("estimate", *flags, "--json"))
    assert (estimate["prompt_token_count"], int(estimate["prompt_rows"])) == (5, 3 * 5)
    assert int(estimate["generated_rows_max"]) == 3 * 3
    assert int(estimate["bytes_max"]) == 4 * 8 * (2 * 576 + 49152)
    out = tmp_path / "rows.npz"
    command_line(smollm2_address, "trace", *flags, "--ignore_eos", "--out", str(out), check=True)
    arrays = np.load(out)
    assert sum(arrays[name].nbytes for name in arrays.files if name not in ("tokens", "positions")) == \
        int(estimate["bytes_max"])
    assert "prompt rows     15" in run("estimate", *flags)


def test_models_hooks_and_health_describe_the_server(run, smollm2, command_line):
    model = smollm2.get_model()
    assert json.loads(run("models", "--json"))["models"][0]["weights_sha256"] == model.weights_sha256
    assert "llama, 30 layers, hidden 576, 9/3 heads of 64, vocabulary 49152" in run("models")
    table = run("hooks")
    for hook in smollm2.list_hook_points():
        (line,) = [line for line in table.splitlines() if line.split()[0] == hook.name]
        assert (hook.transformer_lens if hook.capturable else f"refused: {hook.refusal}") in line
    assert run("health") == "SERVING\n"
    assert command_line("127.0.0.1:1", "health", "--timeout", "1").returncode != 0


def test_context_report_compares_methods(run, tmp_path):
    text = tmp_path / "text"
    text.write_text("One day, a cat sat on a mat. " * 40, encoding="utf-8")
    report = run("context-report", "--text", str(text), "--methods", "none,linear,yarn", "--factor", "4")
    for method in ("none", "linear", "yarn"):
        assert method in report


def test_bench_measures_the_server(run):
    report = json.loads(run("bench", "--requests", "4", "--concurrency", "2", "--max_tokens", "3", "--json"))
    assert (report["requests"], report["concurrency"]) == (4, 2)
    assert report["output_tokens_per_second"] > 0
    assert 0 < report["time_to_first_token_seconds"]["p50"] <= report["time_to_first_token_seconds"]["p99"]
    assert report["inter_token_latency_seconds"]["p50"] <= report["inter_token_latency_seconds"]["max"]
    assert "throughput" in run("bench", "--requests", "2", "--max_tokens", "2")


def test_bench_measures_loads_one_after_the_other(run):
    reports = json.loads(run("bench", "--requests", "3", "--concurrency", "1,2", "--arrival_rates", "50",
                             "--arrival_seed", "5", "--max_tokens", "2", "--json"))
    assert [r.get("concurrency") for r in reports] == [1, 2, None]
    assert (reports[2]["arrival_rate"], reports[2]["arrival_seed"]) == (50, 5)
    assert all(r["request_latency_seconds"]["max"] > 0 for r in reports)


def test_bench_refuses_loads_that_are_none(smollm2_address, command_line):
    for flags in (["--concurrency", "0"], ["--arrival_rates", "-1"], ["--concurrency", "1,x"]):
        done = command_line(smollm2_address, "bench", *flags, text=True)
        assert done.returncode != 0 and flags[0] in done.stderr


def test_headrace_bench_measures_the_engine(smollm2_path):
    done = subprocess.run([program("headrace-bench"), "--model", smollm2_path, "--prompt", "16", "--generate", "4",
                           "--repeat", "1", "--kv_cache_dtype", "bf16", "--json"], capture_output=True, check=True)
    report = json.loads(done.stdout)
    assert report["kv_cache_dtype"] == "bf16"
    for figure in ("prefill_tokens_per_second", "decode_tokens_per_second"):
        assert 0 < report[figure]["min"] <= report[figure]["median"] <= report[figure]["max"]
    for field in ("weight_bytes", "decode_weight_bytes_per_second", "load_seconds", "peak_rss_bytes", "threads", "isa",
                  "numerics", "model", "build"):
        assert report[field], field


def test_ctrl_c_ends_the_call_on_the_server_too(smollm2_address):
    with subprocess.Popen([program("headrace"), "generate", "--server", smollm2_address, "--prompt", "Once",
                           "--ignore_eos"], stdout=subprocess.PIPE) as command:
        assert command.stdout.read(1)
        command.send_signal(signal.SIGINT)
        command.wait(timeout=30)
    assert smollm2_address.becomes_idle()


@pytest.mark.parametrize("flags, words", [
    (["generate"], "give one of --prompt"),
    (["generate", "--prompt", "a", "--top_p", "2"], "sampling.top_p"),
    (["generate", "--prompt", "a", "--rope_factor", "2"], "--rope_scaling"),
    (["trace", "--prompt", "a"], "--out"),
    (["trace", "--prompt", "a", "--out", "/nowhere/x.npz"], "/nowhere/x.npz"),
    (["trace", "--prompt", "a", "--hooks", "resid_poost", "--out", "x.npz"], "resid_poost"),
    (["frobnicate"], "unknown command frobnicate"),
    (["models", "stray"], "unexpected argument: stray"),
    (["generate", "two", "words"], "unexpected argument: words"),
    (["context-report", "--prompt", "a b"], "--methods"),
])
def test_what_is_wrong_is_said(smollm2_address, command_line, tmp_path, flags, words):
    done = command_line(smollm2_address, *flags, text=True, cwd=tmp_path)
    assert done.returncode != 0 and words in done.stderr, done
