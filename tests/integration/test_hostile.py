"""What a client or an operator may send that means harm, or makes no sense."""
import math
import os
import subprocess
import time

import grpc
import pytest

import headrace
from headrace.v1 import activations_pb2, context_extension_pb2, generation_pb2
from servers import eventually, program, serving


def status_of(call, *arguments):
    """Of an RPC that fails."""
    with pytest.raises(grpc.RpcError) as error:
        answer = call(*arguments, timeout=30)
        list(answer if hasattr(answer, "cancel") else [answer])
    return error.value.code(), error.value.details()


def test_a_wrong_bias_for_every_token_is_answered_at_once(smollm2_address):
    """Naming each by looking through all of them takes minutes of a converter's
    thread, and nobody else is served meanwhile."""
    request = generation_pb2.GenerateRequest(text="a")
    request.sampling.logit_bias.update({token: math.nan for token in range(49152)})

    code, text = status_of(smollm2_address.inference.Generate, request)

    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "sampling.logit_bias[0] must be finite" in text and text.endswith(f"and {49152 - 8} more"), text


def test_two_billion_positions_are_not_counted(stories_address, stories):
    request = generation_pb2.GenerateRequest(text="Once")
    request.stop.max_tokens = 2**32 - 1
    request.context_extension.CopyFrom(context_extension_pb2.ContextExtension(
        max_context=2**31 - 1,
        rope_scaling=context_extension_pb2.RopeScaling(none=context_extension_pb2.NoScaling())))
    window = activations_pb2.PositionWindow(begin=10, end=2**40, stride=7)
    request.capture.CopyFrom(activations_pb2.CaptureSpec(
        hooks=[activations_pb2.HookSelector(hook=activations_pb2.HOOK_POINT_RESID_POST)],
        rows=activations_pb2.RowSelector(generated=activations_pb2.PhaseRows(windows=[window] * 64))))

    code, text = status_of(stories_address.inference.Generate, request)

    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "2147483646 positions of the KV cache" in text
    assert stories.generate_text("Once", max_tokens=2)


def test_conversions_of_calls_that_ended_are_not_made(stories_address, stories):
    """Large texts of clients that went away must not hold up the next one."""
    text = "".join(chr(97 + i * i * 7 % 26) for i in range(1_000_000)).encode()
    request = generation_pb2.TokenizeRequest(texts=[text])
    first = stories_address.inference.Tokenize.future(request)
    others = [stories_address.inference.Tokenize.future(request) for _ in range(12)]
    for call in others:
        call.cancel()
    first.exception()
    began = time.monotonic()

    assert stories.tokenize("Once")

    took = time.monotonic() - began
    first = stories_address.inference.Tokenize.future(request)
    began = time.monotonic()
    first.exception()
    assert took < 4 * (time.monotonic() - began) + 1, "as if none of them had been cancelled"


def test_an_intervention_that_overflows_is_the_requests_own_fault(stories_address, stories):
    request = generation_pb2.GenerateRequest(text="Once")
    change = request.interventions.add()
    change.where.hook = activations_pb2.HOOK_POINT_RESID_POST
    change.rows.prompt.all = True
    change.scale.factor = 3e38

    code, text = status_of(stories_address.inference.Generate, request)

    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert "the request's interventions make them overflow" in text
    assert stories.generate_text("Once", max_tokens=2)


def test_a_message_that_does_not_parse_is_no_missing_method(stories_address):
    channel = grpc.insecure_channel(stories_address)

    def answer(method, data):
        rpc = channel.unary_unary(f"/headrace.v1.InferenceService/{method}", lambda x: x, lambda x: x)
        return status_of(rpc, data)

    assert answer("Tokenize", b"\xff\xff\xff") == (
        grpc.StatusCode.INVALID_ARGUMENT, "the message is not a request of /headrace.v1.InferenceService/Tokenize")
    assert answer("Generate", b"\x12\x01\xff") == (grpc.StatusCode.INVALID_ARGUMENT, "text must be valid UTF-8")
    assert answer("Nothing", b"")[0] == grpc.StatusCode.UNIMPLEMENTED


def test_memory_of_large_requests_is_given_back(stories_path):
    """Two bytes on the wire become a hundred in memory, and stay with the
    allocator of the thread that parsed them."""
    request = generation_pb2.EmbedRequest(inputs=[generation_pb2.EmbedInput()] * 2_000_000)

    def resident(address):
        with open(f"/proc/{address.pid}/status", encoding="ascii") as status:
            (line,) = [line for line in status if line.startswith("VmRSS:")]
        return int(line.split()[1]) >> 10

    with serving(stories_path) as address:
        before = resident(address)
        calls = [address.inference.Embed.future(request) for _ in range(8)]
        assert all(call.code() == grpc.StatusCode.INVALID_ARGUMENT for call in calls)
        assert eventually(lambda: resident(address) < before + 100), (before, resident(address))


@pytest.mark.parametrize("flag, complaint", [
    ("--listen=127.0.0.1:99999", "a port from 0 to 65535"),
    ("--listen=127.0.0.1", "must be host:port"),
    ("--listen=unix:", "must be host:port"),
    ("--listen=127.0.0.1.example.org:0", "is open to other machines"),
    ("--drain_grace=-1s", "drain_grace: must be at least 0; is -1s"),
    ("--stall_after=0", "stall_after: must be above 0; is 0"),
    ("--tls_cert_file=/tmp", "tls_cert_file: cannot read /tmp"),
])
def test_flags_that_mean_nothing_are_refused_by_name(stories_path, refusal, flag, complaint):
    assert complaint in refusal(stories_path, flag)


def test_parameters_of_another_scaling_are_refused(stories_path, refusal):
    assert "rope_scaling.yarn.low_freq_factor: cannot be set" in refusal(
        stories_path, "--rope_scaling=yarn", "--rope_factor=4", "--rope_low_freq_factor=nan")


def redirected(redirections):
    return "bash", "-c", f'exec "$@" {redirections}', "-"


def test_closed_descriptors_do_not_become_sockets(stories_path):
    """Else what is meant for the log goes into a connection."""
    with serving(stories_path, through=redirected("<&- 2>&-")) as address:
        for descriptor in (0, 2):
            assert os.readlink(f"/proc/{address.pid}/fd/{descriptor}") == "/dev/null"
        with headrace.Client(address) as client:
            assert client.generate_text("Once", max_tokens=2)


def test_output_that_cannot_be_written_is_a_failure(stories_address):
    def failure(output, *flags):
        command = [program("headrace"), "generate", "--server", stories_address, "--prompt", "Once", "--max_tokens",
                   "3", *flags]
        done = subprocess.run([*redirected(output), *command], capture_output=True, text=True, timeout=60)
        assert done.returncode == 1, done
        return done.stderr

    assert "cannot write the output: No space left" in failure(">/dev/full")
    assert "cannot write the output: No space left" in failure(">/dev/full", "--json")
    assert "cannot write the output: Bad file descriptor" in failure(">&-")


def test_what_a_command_line_cannot_mean_is_named(stories_address, command_line):
    def complaint(*flags):
        done = command_line(stories_address, "generate", *flags)
        assert done.returncode == 1 and not done.stdout, done
        return done.stderr.decode()

    traced = command_line(stories_address, "trace", "--prompt", "a", "--out", "/dev/null", "--n", "3")
    assert traced.returncode == 1 and b"a trace is of one choice; --n is 3" in traced.stderr
    assert "tls.root_certificates needs TLS" in complaint("--prompt", "a", "--tls_ca_file", __file__)
    assert complaint("--prompt_file", "/tmp").endswith("NOT_FOUND: cannot read /tmp\n")
    assert "--timeout must be at least 0; is -1" in complaint("--prompt", "a", "--timeout=-1")
    assert complaint("--prompt", b"\xff").startswith(
        "headrace generate: INVALID_ARGUMENT: text must be valid UTF-8")


def test_the_end_does_not_wait_for_idle_connections(stories_path):
    with serving(stories_path) as address:
        client = headrace.Client(address)
        client.generate_text("Once", max_tokens=2)
        began = time.monotonic()
    assert time.monotonic() - began < 4
    client.close()
