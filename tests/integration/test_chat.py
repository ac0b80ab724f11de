"""Chat templates through the server: what they refuse, and what they may not do."""
import pathlib
import re
import time

import grpc
import pytest

import headrace
import model_files
from headrace.v1 import generation_pb2


def apply(address, messages, **options):
    chat = generation_pb2.Chat(**options)
    for role, content in messages:
        chat.messages.add(role=role, content=content)
    return address.inference.ApplyChatTemplate(generation_pb2.ApplyChatTemplateRequest(chat=chat))


def refusal(address, template, messages=(("user", "hi"),)):
    """What the server says of a template that cannot be rendered."""
    with pytest.raises(grpc.RpcError) as caught:
        apply(address, messages, template=template)
    assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, caught.value
    return caught.value.details()


def peak_memory(pid):
    """Bytes that a process has had resident at the most."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) * 1024


@pytest.mark.parametrize("words, condition, messages", [
    ("System role not supported", "messages[0].role == 'system'", [("system", "be brief"), ("user", "hi")]),
    ("Conversation roles must alternate user/assistant/user/assistant/...", "messages[0].role == messages[1].role",
     [("user", "hi"), ("user", "there")]),
])
def test_a_templates_own_refusal_has_its_words(smollm2_address, words, condition, messages):
    # janhq/jan#6254, vllm-project/vllm#16774
    template = "{% if " + condition + " %}{{ raise_exception('" + words + "') }}{% endif %}x"
    message = refusal(smollm2_address, template, messages)
    assert "chat.messages" in message and words in message
    chat = generation_pb2.Chat(template=template)
    for role, content in messages:
        chat.messages.add(role=role, content=content)
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT[\\s\\S]*" + re.escape(words)):
        list(smollm2_address.inference.Generate(generation_pb2.GenerateRequest(chat=chat)))
    assert apply(smollm2_address, [("user", "hi")]).ids


@pytest.mark.parametrize("template, name", [
    ("{{ messages[0].nothing.more }}", "nothing"),
    ("{{ messages | frobnicate }}", "frobnicate"),
    ("{{ ''.__class__ }}", "__class__"),
    ("{{ ''.__class__.__mro__ }}", "__class__"),
])
def test_what_a_template_cannot_have_is_named(smollm2_address, template, name):
    # EricLBuehler/mistral.rs#506
    assert name in refusal(smollm2_address, template)
    assert apply(smollm2_address, [("user", "hi")]).ids


def test_a_huge_range_costs_neither_time_nor_memory(smollm2_address):
    apply(smollm2_address, [("user", "hi")])
    before, start = peak_memory(smollm2_address.pid), time.monotonic()
    message = refusal(smollm2_address, "{% for i in range(1000000000) %}{% endfor %}")
    assert time.monotonic() - start < 1
    assert peak_memory(smollm2_address.pid) - before < 50 << 20
    assert "1000000000" in message
    assert apply(smollm2_address, [("user", "hi")]).ids


def test_a_bos_is_added_once_and_never_repaired(smollm2_path, tmp_path, start):
    # MakazhanAlpamys/Soup#781, abetlen/llama-cpp-python#1439
    model = model_files.rewrite_gguf(smollm2_path, tmp_path / "bos.gguf", {
        "tokenizer.ggml.add_bos_token": (model_files.BOOL, True),
        "tokenizer.chat_template": (model_files.STRING,
                                    "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %}")})
    with start(model, "--kv_cache_bytes", "400000000") as address, headrace.Client(address) as client:
        chat = apply(address, [("user", "hi")])
        assert list(chat.ids) == [1, 6004] and chat.text == "<|im_start|>hi"
        assert client.tokenize("hi") == [1, 6004]
        assert client.tokenize("<|im_start|>hi", parse_special=True) == [1, 1, 6004]
        assert client.tokenize("<|im_start|>hi", parse_special=True, add_special_tokens=False) == [1, 6004]
        assert client.tokenize("hi", add_special_tokens=False) == [6004]
        for prompt in ("hi", [{"role": "user", "content": "hi"}]):
            assert list(next(client.generate(prompt, max_tokens=1)).prompt_token_ids) == [1, 6004]


def test_a_conversation_may_continue_its_last_message(smollm2_address):
    # vllm-project/vllm#8942
    talk = [("user", "Say A"), ("assistant", "The answer is ")]
    assert apply(smollm2_address, talk).text.endswith("The answer is <|im_end|>\n<|im_start|>assistant\n")
    assert apply(smollm2_address, talk, continue_final_message=True).text.endswith("assistant\nThe answer is ")
    for messages, options in ((talk, dict(add_generation_prompt=True)), (talk[:1], {})):
        with pytest.raises(grpc.RpcError) as caught:
            apply(smollm2_address, messages, continue_final_message=True, **options)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT
        assert "continue_final_message" in caught.value.details()
