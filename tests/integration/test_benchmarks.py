"""The scripts that measure say in one line what is missing, and leave no process behind."""
import pathlib
import signal
import subprocess
import sys

import pytest

from servers import eventually, program

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = ("compare_peers.py", "measure_capture.py", "measure_overhead.py")
COMPARE, _, OVERHEAD = SCRIPTS


def command(script, model, *flags):
    return [sys.executable, FOLDER / script, "--model", str(model), *flags]


def complaint(script, model, *flags):
    done = subprocess.run(command(script, model, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=60, check=False)
    assert done.returncode != 0 and not done.stdout
    assert "Traceback" not in done.stderr, done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize("script", SCRIPTS)
def test_what_cannot_be_measured_is_said_at_once(stories_path, tmp_path, script):
    assert "nowhere does not exist" in complaint(script, "nowhere")
    assert f"{tmp_path}/headrace-" in complaint(script, stories_path, "--bin", str(tmp_path))
    assert "--rounds: must be at least 1; is 0" in complaint(script, stories_path, "--rounds", "0")
    assert "--generate: must be at least 2; is 1" in complaint(script, stories_path, "--generate", "1")
    assert "--threads: invalid whole number value: 'two'" in complaint(script, stories_path, "--threads", "two")


def test_one_start_has_no_standard_error(stories_path):
    assert "--starts: must be at least 2; is 1" in complaint(OVERHEAD, stories_path, "--starts", "1")


def test_reports_go_where_they_can_be_written(stories_path, tmp_path):
    for flag in ("--json", "--html"):
        path = str(tmp_path / "none" / "report")
        assert complaint(COMPARE, stories_path, flag, path).endswith(f"{flag}: cannot write {path}")


def test_what_a_program_said_last_is_passed_on(tmp_path):
    no_model = tmp_path / "model.gguf"
    no_model.write_text("no model")
    binaries = ("--bin", str(pathlib.Path(program("headrace-server")).parent))
    assert complaint(OVERHEAD, no_model, *binaries).startswith(
        "measure_overhead.py: headrace-server ended with 1: headrace-server: ")
    assert complaint(COMPARE, no_model, *binaries, "--skip_precision", "--rounds", "1").startswith(
        "compare_peers.py: headrace fast: headrace-bench ended with 1: ")


def test_a_peer_that_crashes_is_named(tmp_path):
    script = tmp_path / "crash.py"
    script.write_text(f"import os, sys\nsys.path.insert(0, {str(FOLDER)!r})\nimport compare_peers\n"
                      "class Crash:\n    def __init__(self):\n        os._exit(7)\n"
                      "if __name__ == '__main__':\n    compare_peers.Process(Crash)\n")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=30, check=False)
    assert done.stderr.splitlines()[-1].endswith("Failed: Crash ended with 7")


def test_no_server_is_left_when_a_script_is_terminated(stories_path, tmp_path):
    folder = pathlib.Path(program("headrace-server")).parent
    (tmp_path / "headrace-bench").symlink_to(folder / "headrace-bench")
    for name in ("headrace-server", "headrace"):
        wrapper = tmp_path / name
        wrapper.write_text(f'#!/bin/sh\necho $$ > {tmp_path}/{name}.pid\nexec {folder}/{name} "$@"\n')
        wrapper.chmod(0o755)
    with subprocess.Popen(command(OVERHEAD, stories_path, "--bin", str(tmp_path), "--rounds", "100000"),
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as script:
        assert eventually((tmp_path / "headrace.pid").exists)  # its server is ready, then
        script.terminate()
        assert script.wait(30) == 128 + signal.SIGTERM
    server = int((tmp_path / "headrace-server.pid").read_text())
    assert not pathlib.Path(f"/proc/{server}").exists()
