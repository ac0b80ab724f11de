"""Random clients that cancel, disconnect, read slowly or send garbage: the
server stays up, others are undisturbed, and everything is given back.

HEADRACE_SOAK_SECONDS (default 8) says how long.
"""
import os
import random
import socket
import threading
import time

import grpc
import pytest

import headrace
from headrace.v1 import activations_pb2, context_extension_pb2 as ce

SECONDS = float(os.environ.get("HEADRACE_SOAK_SECONDS", "8"))
EVERYTHING = activations_pb2.CaptureSpec(
    hooks=[activations_pb2.HookSelector(hook=hook, all=True) for hook in
           (activations_pb2.HOOK_POINT_RESID_PRE, activations_pb2.HOOK_POINT_ATTN_OUT,
            activations_pb2.HOOK_POINT_RESID_POST)],
    rows=activations_pb2.RowSelector(prompt=activations_pb2.PhaseRows(all=True),
                                     generated=activations_pb2.PhaseRows(all=True)), checks=True)


def cancel_midway(address, rng):
    with headrace.Client(address) as client:
        stream = client.generate([1] + [rng.randrange(3, 250) for _ in range(rng.randrange(1, 200))], ignore_eos=True,
                                 max_tokens=rng.randrange(1, 200), capture=EVERYTHING if rng.random() < 0.5 else None)
        for _ in range(rng.randrange(0, 30)):
            if next(stream, None) is None:
                break
        stream.close()


def vanish(address, rng):
    """The connection goes away while the call runs."""
    client = headrace.Client(address)
    stream = client.generate([1, 5, 9], ignore_eos=True, max_tokens=200)
    next(stream)
    client.close()
    with pytest.raises((headrace.HeadraceError, ValueError)):
        for _ in stream:
            pass


def read_slowly(address, rng):
    with headrace.Client(address) as client:
        end = time.monotonic() + 1
        for _ in client.generate([1] + [7] * 100, ignore_eos=True, max_tokens=100, capture=EVERYTHING):
            if time.monotonic() > end:
                break
            time.sleep(0.01)  # a slow reader is what is tested


def miss_the_deadline(address, rng):
    with headrace.Client(address, timeout=rng.choice([0.001, 0.02, 0.1])) as client:
        try:
            client.generate_text([1] + [11] * 150, ignore_eos=True, max_tokens=250)
        except headrace.StoppedError:
            pass


def send_garbage(address, rng):
    host, port = address.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.sendall(rng.choice([b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + rng.randbytes(64),
                              rng.randbytes(256)]))
    channel = grpc.insecure_channel(address)
    with pytest.raises(grpc.RpcError):
        channel.unary_unary("/headrace.v1.InferenceService/Embed")(rng.randbytes(40), timeout=5)
    channel.close()


def ask_for_nonsense(address, rng):
    with headrace.Client(address) as client:
        with pytest.raises(headrace.HeadraceError):
            client.generate_text([1, rng.randrange(10**6, 2**32)], temperature=rng.choice([-1.0, float("inf")]),
                                 context_extension=ce.ContextExtension(rope_theta=-1))


ACTIONS = [cancel_midway, cancel_midway, vanish, read_slowly, miss_the_deadline, send_garbage, ask_for_nonsense]


def run_until(end, address, seed, failures):
    rng = random.Random(seed)
    while time.monotonic() < end:
        action = rng.choice(ACTIONS)
        try:
            action(address, rng)
        except headrace.ResourceExhaustedError:
            pass  # a full queue is a right answer
        except Exception as error:  # pylint: disable=broad-except
            failures.append(f"{action.__name__}: {error!r}")
            return


def test_nothing_is_lost_to_random_clients(stories_path, start):
    with start(stories_path, "--numerics", "exact", metrics=True) as address:
        with headrace.Client(address) as client:
            expected = client.generate_text([1], max_tokens=100, temperature=0)
            failures, end = [], time.monotonic() + SECONDS
            threads = [threading.Thread(target=run_until, args=(end, address, seed, failures)) for seed in range(6)]
            for thread in threads:
                thread.start()
            undisturbed = 0
            while time.monotonic() < end:
                assert client.generate_text([1], max_tokens=100, temperature=0) == expected
                undisturbed += 1
            for thread in threads:
                thread.join()
            assert not failures, failures
            assert undisturbed > 0
            assert client.generate_text([1], max_tokens=100, temperature=0) == expected
        assert address.becomes_idle()
