"""The life of a server's process: what it shows while it loads, why it would not
start, and how it stops."""
import os
import pty
import signal
import subprocess
import threading

import grpc
import pytest

import headrace
import model_files
from servers import eventually, program

SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


def test_loading_shows_its_progress_on_a_terminal_only(stories_path):
    def errors(terminal):
        ours, theirs = pty.openpty() if terminal else os.pipe()
        command = [program("headrace-server"), "--model", str(stories_path), "--listen", "127.0.0.1:0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as server:
            os.close(theirs)
            assert server.stdout.readline()
            server.terminate()
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # how a terminal says that nobody is at the other side
            pass
        os.close(ours)
        return text

    shown = errors(terminal=True)
    assert b"loading:" in shown and b"100 %" in shown
    assert b"loading:" not in errors(terminal=False)


def test_sigterm_lets_the_running_finish_and_turns_the_rest_away(smollm2_path, start):
    with start(smollm2_path, "--numerics", "exact", "--drain_notice", "1s", "--drain_grace", "60s") as address:
        with grpc.insecure_channel(address) as channel, headrace.Client(address) as client:
            watch = channel.unary_stream("/grpc.health.v1.Health/Watch")(b"")
            assert next(watch) == SERVING
            options = dict(max_tokens=100, temperature=0, ignore_eos=True)
            expected = client.generate_text("Once upon a time", **options)
            stream = client.generate("Once upon a time", **options)
            seen = [next(stream)]
            os.kill(address.pid, signal.SIGTERM)
            assert next(watch) == NOT_SERVING

            def refused():
                try:
                    client.generate_text("late", max_tokens=1)
                except headrace.UnavailableError:
                    return True
                return False

            late = threading.Thread(target=lambda: refusals.append(eventually(refused)))
            refusals = []
            late.start()
            seen += list(stream)
            late.join()
            assert refusals == [True]
    text = "".join(e.text for e in seen if isinstance(e, (headrace.Token, headrace.ChoiceEnd)))
    assert text == expected and isinstance(seen[-1], headrace.End)


def test_bfloat16_keys_and_values_take_half_the_memory(stories_path, start):
    blocks, texts = {}, []
    for dtype in ("f32", "bf16"):
        flags = ("--numerics", "exact", "--kv_cache_dtype", dtype, "--kv_cache_bytes", str(6 * 32 * 40960))
        with start(stories_path, *flags, metrics=True) as address, headrace.Client(address) as client:
            assert address.ready["kv_cache_dtype"] == client.get_model().kv_cache_dtype == dtype
            blocks[dtype] = address.ready["kv_cache_blocks"]
            prompt = "Once upon a time, there was a little girl named Lily. " * 3
            texts = [client.generate_text(prompt, max_tokens=40, temperature=0, ignore_eos=True) for _ in range(2)]
            assert address.metric("headrace_prefix_cache_hits_total") > 0
            assert texts[0] == texts[1] and len(texts[0]) > 20
    assert blocks["bf16"] == 2 * blocks["f32"]


def test_an_unknown_type_of_keys_and_values_is_refused_with_the_known(stories_path, refusal):
    bench = subprocess.run([program("headrace-bench"), "--model", str(stories_path), "--kv_cache_dtype", "fp8"],
                           capture_output=True, text=True)
    assert bench.returncode == 1
    for message in (bench.stderr, refusal(stories_path, "--kv_cache_dtype", "fp8")):
        assert '--kv_cache_dtype must be auto, f32, bf16, int16 or int8; is "fp8"' in message


def test_a_model_that_cannot_fit_is_refused_with_the_numbers(smollm2_path, refusal):
    message = refusal(smollm2_path, "--kv_cache_bytes", "1000000")
    assert "8192 tokens takes 186 MiB" in message and "weights" in message
    assert "kv_cache_bytes" in message


@pytest.mark.parametrize("name, cut, words", [
    ("model.safetensors", lambda data: data[:-100], ["model.safetensors", "bytes"]),
    ("config.json", lambda data: data[:20], ["config.json"]),
    ("model.safetensors", lambda data: data[:8] + b"x" + data[9:], ["model.safetensors"]),
])
def test_a_damaged_folder_is_refused_by_file(tmp_path, refusal, name, cut, words):
    folder = model_files.write_folder(tmp_path / "model")
    (folder / name).write_bytes(cut((folder / name).read_bytes()))
    message = refusal(folder)
    assert all(word in message for word in words), message
