"""A running server for the tests: HEADRACE_SERVER_BINARY names the program,
HEADRACE_TEST_MODEL the model (a file or folder)."""
import json
import os
import subprocess

import pytest

import headrace


@pytest.fixture(scope="session")
def address():
    binary, model = os.environ.get("HEADRACE_SERVER_BINARY"), os.environ.get("HEADRACE_TEST_MODEL")
    if not binary or not model:
        pytest.skip("HEADRACE_SERVER_BINARY and HEADRACE_TEST_MODEL are not set")
    command = [binary, "--model", model, "--listen", "127.0.0.1:0", "--numerics", "exact"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            ready = json.loads(server.stdout.readline())
            assert ready["event"] == "serving"
            yield ready["listen"][0]
        finally:
            server.terminate()
            assert server.wait(timeout=60) == 0


@pytest.fixture(scope="session")
def client(address):
    with headrace.Client(address) as client:
        yield client
