"""Servers for the integration tests. HEADRACE_SERVER_BINARY names the program
(build/release/bin/headrace-server), HEADRACE_TEST_MODEL the default model."""
import contextlib
import json
import os
import pathlib
import subprocess

import pytest

import headrace

STORIES = pathlib.Path(__file__).resolve().parents[3] / "shared/data/stories260k/stories260K.bin"


@contextlib.contextmanager
def serving(model, *flags, expect_exit=0):
    """A server of `model`; yields its address, stops it with SIGTERM."""
    binary = os.environ.get("HEADRACE_SERVER_BINARY")
    if not binary:
        pytest.skip("HEADRACE_SERVER_BINARY is not set")
    command = [binary, "--model", str(model), "--listen", "127.0.0.1:0", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            line = server.stdout.readline()
            assert line, f"the server ended with {server.wait(10)} before it was ready"
            yield json.loads(line)["listen"][0]
        finally:
            server.terminate()
            assert server.wait(timeout=60) == expect_exit


@pytest.fixture(scope="session")
def start():
    return serving


@pytest.fixture(scope="session")
def smollm2():
    """A client of SmolLM2-135M-Instruct Q4_1 in exact numerics."""
    model = os.environ.get("HEADRACE_TEST_MODEL")
    if not model or "SmolLM2-135M-Instruct.Q4_1" not in model:
        pytest.skip("HEADRACE_TEST_MODEL is not SmolLM2-135M-Instruct.Q4_1.gguf")
    with serving(model, "--numerics", "exact", "--kv_cache_bytes", "600000000") as address:
        with headrace.Client(address) as client:
            yield client


@pytest.fixture(scope="session")
def stories_path():
    if not STORIES.exists():
        pytest.skip("stories260K is not here")
    return STORIES


@pytest.fixture(scope="session")
def stories(stories_path):
    """A client of stories260K (window 512) in exact numerics."""
    with serving(stories_path, "--numerics", "exact") as address:
        with headrace.Client(address) as client:
            yield client
