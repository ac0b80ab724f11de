"""What the place where the programs run must not change: variables of OpenMP,
the locale, a reader that goes away. On a tiny random model, written here."""

import contextlib
import json
import os
import pathlib
import struct
import subprocess
import time

import grpc
import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SERVER = pathlib.Path(os.environ.get("HEADRACE_SERVER_BINARY", ROOT / "build/release/bin/headrace-server"))
CLIENT = SERVER.parent / "headrace"
BENCH = SERVER.parent / "headrace-bench"

pytestmark = pytest.mark.skipif(not SERVER.exists(), reason=f"{SERVER} is not built")


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, array in tensors.items():
        header[name] = {"dtype": "F32", "shape": array.shape, "data_offsets": [offset, offset + array.nbytes]}
        offset += array.nbytes
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in tensors.values():
            file.write(array.tobytes())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A Llama folder of 2 layers without a tokenizer; its numbers have points."""
    folder = tmp_path_factory.mktemp("model")
    hidden, inner, vocabulary, kv = 64, 96, 260, 32
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden,
        "intermediate_size": inner, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "vocab_size": vocabulary, "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-05, "rope_theta": 100000.0, "hidden_act": "silu",
        "tie_word_embeddings": True, "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    random = np.random.default_rng(1)
    shapes = {"model.embed_tokens.weight": (vocabulary, hidden)}
    for layer in range(2):
        block = f"model.layers.{layer}."
        shapes |= {
            block + "self_attn.q_proj.weight": (hidden, hidden),
            block + "self_attn.k_proj.weight": (kv, hidden),
            block + "self_attn.v_proj.weight": (kv, hidden),
            block + "self_attn.o_proj.weight": (hidden, hidden),
            block + "mlp.gate_proj.weight": (inner, hidden),
            block + "mlp.up_proj.weight": (inner, hidden),
            block + "mlp.down_proj.weight": (hidden, inner),
            block + "input_layernorm.weight": (hidden,),
            block + "post_attention_layernorm.weight": (hidden,),
        }
    shapes["model.norm.weight"] = (hidden,)
    write_safetensors(folder / "model.safetensors", {
        name: random.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()})
    return folder


@contextlib.contextmanager
def serving(model, *flags, environment=None, **options):
    """A server; yields its process and the event that it announced itself with."""
    command = [SERVER, "--model", model, "--listen", "127.0.0.1:0", "--numerics", "exact", *flags]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True,
                           env={**os.environ, **(environment or {})}, **options)
    try:
        line = run.stdout.readline()
        assert line, f"the server ended with {run.wait()} before it was ready"
        yield run, json.loads(line)
    finally:
        run.terminate()
        assert run.wait(timeout=60) == 0


def generate(address, *arguments, environment=None):
    return subprocess.run(
        [CLIENT, "generate", "--server", address, "--tokens", "1,2,3", "--max_tokens", "16", "--seed", "1",
         "--temperature", "0.7", "--json", *arguments],
        capture_output=True, text=True, check=True, env={**os.environ, **(environment or {})}).stdout


def without_times(lines):
    """The events as they were written, but for clock and request id."""
    events = []
    for line in lines.splitlines():
        event = json.loads(line)
        for part in event.values():
            if isinstance(part, dict):
                part.pop("timings", None)
                part.pop("request_id", None)
        events.append(event)
    return events


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# kserve/kserve#1031, pytorch/pytorch#57715: OpenMP obeys the environment.
@pytest.mark.parametrize("environment", [
    {"OMP_NUM_THREADS": "64"}, {"OMP_NUM_THREADS": "1"}, {"OMP_WAIT_POLICY": "active"}], ids=str)
def test_openmps_variables_change_neither_threads_nor_results(model, environment):
    with serving(model, "--threads", "2") as (_, ready):
        expected = without_times(generate(ready["listen"][0]))

    with serving(model, "--threads", "2", environment=environment) as (_, ready):
        assert ready["threads"] == 2
        assert without_times(generate(ready["listen"][0])) == expected


@pytest.mark.slow
@pytest.mark.parametrize("environment", [
    {"OMP_NUM_THREADS": "64"}, {"OMP_NUM_THREADS": "1"}, {"OMP_WAIT_POLICY": "active"}], ids=str)
def test_openmps_variables_do_not_change_the_speed(model, environment):
    def speed(variables):
        report = subprocess.run(
            [BENCH, "--model", model, "--prompt", "64", "--generate", "256", "--threads", "2", "--repeat", "9",
             "--json"], check=True, capture_output=True, text=True, env={**os.environ, **variables}).stdout
        # The best of nine: what other load on the machine leaves of it.
        return json.loads(report)["decode_tokens_per_second"]["max"]

    assert speed(environment) == pytest.approx(speed({}), rel=0.1)


# dmlc/treelite#220: a thread pool spins while it has nothing to do.
@pytest.mark.parametrize("streams", [0, 100])
def test_an_idle_server_uses_no_cpu(model, streams):
    with serving(model, environment={"OMP_WAIT_POLICY": "active"}) as (run, ready):
        generate(ready["listen"][0])
        with grpc.insecure_channel(ready["listen"][0]) as channel:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
            watches = [watch(b"") for _ in range(streams)]
            for stream in watches:
                next(stream)  # The first status has arrived: the stream is idle.
            before = cpu_seconds(run.pid)
            time.sleep(2)  # The span that is measured.
            used = cpu_seconds(run.pid) - before
            for stream in watches:
                stream.cancel()

    # 0.2 s in 10 s, and the clock ticks 100 times a second.
    assert used <= 0.04 + 0.01


# nlohmann/json#302: under a decimal comma numbers are cut at the point.
def test_a_locale_with_a_decimal_comma_changes_nothing(model, tmp_path):
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", tmp_path / "de_DE.UTF-8"],
                          capture_output=True, text=True)
    if made.returncode not in (0, 1):  # 1: made with warnings
        pytest.skip(f"no German locale: {made.stderr}")
    german = {"LOCPATH": str(tmp_path), "LC_ALL": "de_DE.UTF-8"}
    shown = subprocess.run(["locale", "decimal_point"], env={**os.environ, **german}, capture_output=True, text=True)
    assert shown.stdout == ",\n"

    outputs = {}
    for name, environment in (("C", {"LC_ALL": "C"}), ("de", german)):
        with serving(model, environment=environment) as (_, ready):
            outputs[name] = without_times(generate(ready["listen"][0], environment=environment))

    assert outputs["de"] == outputs["C"]


# hyrise/hyrise#2650: lines sit in a buffer when stdout is no terminal.
def test_a_reader_that_goes_away_ends_generate_quietly(model):
    with serving(model) as (_, ready):
        done = subprocess.run(
            ["bash", "-c", 'set -o pipefail; "$@" | head -c 5', "-", CLIENT, "generate", "--server",
             ready["listen"][0], "--tokens", "1,2,3", "--max_tokens", "4000", "--json"],
            capture_output=True, text=True, timeout=60)

    assert done.returncode == 0
    assert done.stderr == ""
    assert len(done.stdout) == 5
