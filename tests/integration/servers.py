"""Starting the programs. HEADRACE_SERVER_BINARY names headrace-server."""
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import time
import urllib.request

import grpc
import pytest

from headrace.v1 import inference_pb2_grpc


def program(name):
    """The path of headrace-server, headrace or headrace-bench."""
    binary = os.environ.get("HEADRACE_SERVER_BINARY")
    if not binary:
        pytest.skip("HEADRACE_SERVER_BINARY is not set")
    return str(pathlib.Path(binary).with_name(name))


class Running(str):
    """The address of a running server, with what else is known of it."""

    def __new__(cls, ready, pid):
        self = super().__new__(cls, ready["listen"][0])
        self.ready = ready  # the line that said so
        self.pid = pid
        return self

    @functools.cached_property
    def inference(self):
        """The RPCs themselves, for what Client does not offer."""
        return inference_pb2_grpc.InferenceServiceStub(grpc.insecure_channel(self))

    def metric(self, name):
        text = urllib.request.urlopen(f"http://{self.ready['metrics']}/metrics", timeout=10).read().decode()
        (value,) = [line.rsplit(" ", 1)[1] for line in text.splitlines() if line.startswith(name + " ")]
        return float(value)

    def becomes_idle(self, seconds=20):
        """True once nothing is left of any request."""
        names = ("headrace_kv_blocks_used", "headrace_capture_buffer_bytes", "headrace_num_requests_running",
                 "headrace_num_requests_waiting")
        return eventually(lambda: not any(self.metric(name) for name in names), seconds)


def eventually(condition, seconds=20):
    """Looks again until the condition holds; False when it does not in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


@contextlib.contextmanager
def serving(model, *flags, expect_exit=0, metrics=False, through=(), **options):
    """A server of `model`; yields its address, stops it with SIGTERM. `through` is
    a command that runs it, `options` are those of Popen."""
    command = [*through, program("headrace-server"), "--model", str(model), "--listen", "127.0.0.1:0", *flags]
    if metrics:
        command += ["--metrics_listen", "127.0.0.1:0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, **options) as server:
        try:
            line = server.stdout.readline()
            assert line, f"the server ended with {server.wait(10)} before it was ready"
            yield Running(json.loads(line), server.pid)
        finally:
            server.terminate()
            assert server.wait(timeout=60) == expect_exit
