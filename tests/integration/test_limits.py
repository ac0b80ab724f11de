"""What a request may ask for, what a reply may weigh, and what it costs to ask
too late."""
import pathlib
import re

import grpc
import numpy as np
import pytest

import headrace
from headrace.v1 import activations_pb2, generation_pb2
from servers import eventually


def test_prompt_logprobs_are_there_and_max_tokens_0_makes_none(smollm2, smollm2_address):
    # ggml-org/llama.cpp#27174, vllm-project/vllm#9336
    prompt = "The capital of France is Paris."
    wanted = generation_pb2.LogprobsOptions(prompt=True)
    stream = list(smollm2.generate(prompt, max_tokens=0, logprobs=wanted))
    assert [type(e) for e in stream] == [
        headrace.Header, *6 * [headrace.PromptLogprobs], headrace.ChoiceEnd, headrace.End]
    assert list(stream[0].prompt_token_ids) == [504, 3575, 282, 4649, 314, 7042, 30]
    scored = stream[1:7]
    assert [e.position for e in scored] == [1, 2, 3, 4, 5, 6]
    assert [e.token.id for e in scored] == [3575, 282, 4649, 314, 7042, 30]
    logprobs = [e.token.logprob for e in scored]
    # transformers' float32, at half a unit of the last digit printed and then some.
    np.testing.assert_allclose(logprobs, [-11.5393, -0.33762, -2.43866, -0.45095, -0.25808, -0.38014], atol=1e-3)
    assert sum(logprobs) == pytest.approx(-15.40475, abs=0.005)
    assert [e.token.rank for e in scored] == [2923, 1, 2, 1, 1, 1]
    assert stream[-2].generated == 0 and stream[-2].finish_reason == generation_pb2.FINISH_REASON_MAX_TOKENS
    assert stream[-1].usage.prompt_tokens == 7 and stream[-1].usage.generated_tokens == 0
    forward = smollm2_address.inference.Forward(generation_pb2.ForwardRequest(text=prompt, logprobs=wanted))
    assert [(r.logprobs.token.logprob, r.logprobs.token.rank) for r in forward if r.HasField("logprobs")] == \
        [(e.token.logprob, e.token.rank) for e in scored]


@pytest.mark.parametrize("max_tokens", [1, 5])
def test_exactly_as_many_tokens_as_asked_for(smollm2, max_tokens):
    # huggingface/text-generation-inference#1069
    stream = list(smollm2.generate("The capital of France is", max_tokens=max_tokens, ignore_eos=True))
    assert len([e for e in stream if isinstance(e, headrace.Token)]) == max_tokens
    assert stream[-2].generated == stream[-1].usage.generated_tokens == max_tokens


@pytest.mark.parametrize("prompt", ["The capital of France is", [504, 3575, 282, 4649, 314]])
def test_stop_strings_end_every_kind_of_prompt(smollm2, prompt):
    # vllm-project/vllm#57052: prompts of ids went past them. This one spans three tokens.
    stream = list(smollm2.generate(prompt, temperature=0, max_tokens=12, stop_strings=["\n\nThe"]))
    assert "".join(e.text for e in stream[1:-1]) == " Paris."
    end = stream[-2]
    assert (end.finish_reason, end.stop_string, end.generated) == (
        generation_pb2.FINISH_REASON_STOP_STRING, "\n\nThe", 5)


def resident(pid):
    return int(re.search(r"VmRSS:\s+(\d+) kB", pathlib.Path(f"/proc/{pid}/status").read_text())[1]) * 1024


def test_unary_replies_and_requests_beyond_4_mib_are_refused_with_their_size(smollm2, smollm2_address):
    # epigramai/tfserving-python-predict-client#10, elixir-grpc/grpc#111
    rpc = smollm2_address.inference

    def refused(method, request):
        with pytest.raises(grpc.RpcError) as caught:
            method(request)
        assert caught.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, caught.value
        return caught.value.details()

    def every_kind():
        many = refused(rpc.Tokenize, generation_pb2.TokenizeRequest(texts=[b"1 " * 600_000]))
        assert re.search(r"\d{7}", many) and "4194304" in many and "bytes" in many
        # 1.5 million ids of one byte each on the wire, of ten bytes each as text.
        long = refused(rpc.Detokenize, generation_pb2.DetokenizeRequest(ids=[2] * 1_500_000))
        assert re.search(r"\d{8}", long) and "4194304" in long
        rows = refused(rpc.Embed, generation_pb2.EmbedRequest(inputs=64 * [generation_pb2.EmbedInput(text="a")],
                                                              hook=activations_pb2.HOOK_POINT_LOGITS))
        assert str(64 * 49152 * 4) in rows and "4194304" in rows
        talk = generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="user", content="x y " * 900_000)])
        chat = refused(rpc.ApplyChatTemplate, generation_pb2.ApplyChatTemplateRequest(chat=talk))
        assert re.search(r"\d{7}", chat) and "4194304" in chat
        request = refused(rpc.Tokenize, generation_pb2.TokenizeRequest(texts=[b"x" * 5_000_000]))
        assert "5000" in request and "4194304" in request  # gRPC's own limit and words

    assert smollm2.tokenize("ok")
    before = resident(smollm2_address.pid)
    for _ in range(6):
        every_kind()
    # At its peak, every one of them takes more.
    assert eventually(lambda: resident(smollm2_address.pid) < before + (64 << 20))
    assert smollm2.tokenize("ok")


def test_requests_whose_deadline_passed_in_the_queue_are_not_computed(smollm2_path, start):
    # tensorflow/serving#1265, triton-inference-server/server#6920
    with start(smollm2_path, "--numerics", "exact", "--max_num_seqs", "1", "--max_queue", "100",
               metrics=True) as address, headrace.Client(address) as client:
        # Holds the only slot: it takes a minute at the very least, and is closed below.
        busy = client.generate([1], ignore_eos=True, max_tokens=8000)
        next(busy)
        assert eventually(lambda: address.metric("headrace_num_requests_running") == 1)
        assert eventually(lambda: address.metric("headrace_prompt_tokens_total") == 1)
        for i in range(50):
            request = generation_pb2.GenerateRequest(tokens=generation_pb2.TokenIds(ids=[1] + 400 * [403]))
            with pytest.raises(grpc.RpcError) as caught:
                list(address.inference.Generate(request, timeout=(0.001, 0.005, -1)[i % 3]))
            assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert eventually(lambda: address.metric("headrace_num_requests_waiting") == 0)
        assert address.metric("headrace_num_requests_running") == 1
        busy.close()
        assert client.generate_text([1], max_tokens=5, temperature=0)
        # Of `busy` and of the last request.
        assert eventually(lambda: address.metric("headrace_prompt_tokens_total") == 2)
        assert address.becomes_idle()
