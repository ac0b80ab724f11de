"""Tokenize, Detokenize and what Generate makes of a prompt, on real vocabularies.

The right values are those of Hugging Face's tokenizers.
"""
import grpc
import pytest

import headrace
import model_files
from headrace.v1 import activations_pb2, derived_pb2, generation_pb2, selection_pb2

LARGEST = 49151  # of SmolLM2's ids


def violations(call):
    with pytest.raises(headrace.InvalidArgumentError) as caught:
        call()
    return {v.field: v.description for v in caught.value.field_violations}


def greedy(client, prompt, **options):
    """(id, bits of the logprob) of a greedy stream."""
    logprobs = generation_pb2.LogprobsOptions(top_n=1)
    return [(e.id, e.logprob) for e in client.generate(prompt, temperature=0, logprobs=logprobs, **options)
            if isinstance(e, headrace.Token)]


@pytest.fixture(scope="module")
def smollm2_metadata(smollm2_path):
    return model_files.gguf_metadata(smollm2_path)


@pytest.fixture(scope="module")
def added_tokens(smollm2_metadata, tmp_path_factory, start):
    """A client of a Hugging Face folder with SmolLM2's vocabulary and five added tokens."""
    def token(id, content, **flags):
        return {"id": id, "content": content, "normalized": True, "special": False, **flags}
    added = [token(49152, "<L>", lstrip=True), token(49153, "<R>", rstrip=True), token(15236, "foo", single_word=True),
             token(49154, "<fi"), token(49155, "<file>")]
    folder = model_files.write_folder(tmp_path_factory.mktemp("added"), {"vocab_size": 49156},
                                      {"tokenizer.json": model_files.tokenizer_json(smollm2_metadata, added)})
    with start(folder) as address, headrace.Client(address) as client:
        yield client


@pytest.mark.parametrize("text, ids", [
    ("a1b22  333", [81, 33, 82, 34, 34, 256, 35, 35, 35]),
    ("½ and x² and ٣٤ and Ⅻ and 四",
     [16738, 284, 1792, 19133, 284, 216, 164, 113, 164, 114, 284, 216, 173, 223, 121, 284, 13223, 245, 245]),
    ("In 2024, pi=3.14159 x10", [788, 216, 34, 32, 34, 36, 28, 16916, 45, 35, 30, 33, 36, 33, 37, 41, 1792, 33, 32]),
])
def test_digits_of_every_script_split_alone_in_both_kinds_of_file(smollm2, added_tokens, text, ids):
    # EricLBuehler/mistral.rs#397, huggingface/transformers#48656
    assert smollm2.tokenize(text) == ids
    assert added_tokens.tokenize(text) == ids


@pytest.mark.parametrize("text, ids", [
    ("x  <L>  y", [104, 49152, 216, 329]),
    ("x  <R>  y", [104, 256, 49153, 105]),
    ("x\u00a0\n<L>y", [104, 49152, 105]),
    ("food foo foo. <foo>", [14904, 216, 15236, 216, 15236, 30, 2067, 15236, 46]),
    ("<file><fi<filex", [49155, 49154, 49154, 2480]),
])
def test_the_flags_of_added_tokens_are_honoured(added_tokens, text, ids):
    # ggml-org/llama.cpp#7049. They are not special: no flag has to ask for them.
    assert added_tokens.tokenize(text) == ids
    assert added_tokens.tokenize(text, parse_special=True) == ids


def test_a_nul_in_a_prompt_is_a_byte_like_any_other(smollm2, smollm2_address, command_line, tmp_path):
    # ggml-org/llama.cpp#25543
    assert smollm2.tokenize("ab\0cd") == [369, 190, 13133]
    assert smollm2.tokenize("x\0\0 y") == [104, 190, 190, 329]
    assert smollm2.detokenize([369, 190, 13133]) == "ab\0cd"
    header = next(smollm2.generate("ab\0cd", max_tokens=1))
    assert header.prompt_token_count == 3
    chat = generation_pb2.Chat(messages=[generation_pb2.ChatMessage(role="user", content="ab\0cd")])
    rendered = smollm2_address.inference.ApplyChatTemplate(generation_pb2.ApplyChatTemplateRequest(chat=chat))
    assert "ab\0cd" in rendered.text and rendered.text.endswith("<|im_start|>assistant\n")
    header = next(smollm2.generate([{"role": "user", "content": "ab\0cd"}], max_tokens=1))
    assert list(header.prompt_token_ids) == list(rendered.ids)
    prompt = tmp_path / "prompt"
    prompt.write_bytes(b"ab\0cd")
    done = command_line(smollm2_address, "generate", "--prompt_file", str(prompt), "--max_tokens", "1", "--json")
    assert b'"prompt_token_ids":[369,190,13133]' in done.stdout.replace(b" ", b""), done


def test_an_empty_prompt_is_refused_by_name(smollm2, smollm2_address):
    # ggml-org/llama.cpp#5953, huggingface/text-embeddings-inference#557
    for prompt in ("", []):
        assert list(violations(lambda: list(smollm2.generate(prompt, max_tokens=1)))) == ["prompt"]
    with pytest.raises(grpc.RpcError, match=r"INVALID_ARGUMENT[\s\S]*prompt must not be empty"):
        list(smollm2_address.inference.Generate(generation_pb2.GenerateRequest(chat=generation_pb2.Chat())))
    with pytest.raises(grpc.RpcError, match=r"INVALID_ARGUMENT[\s\S]*inputs\[0\]"):
        smollm2_address.inference.Embed(generation_pb2.EmbedRequest(inputs=[generation_pb2.EmbedInput(text="")]))
    assert smollm2.tokenize("") == []


def test_an_empty_text_is_a_bos_where_the_tokenizer_adds_one(stories):
    events = list(stories.generate("", temperature=0, max_tokens=5))
    assert events[0].prompt_token_count == 1
    assert [e.id for e in events if isinstance(e, headrace.Token)] == [403, 407, 261, 378, 432]
    assert stories.tokenize("") == [1]
    assert list(violations(lambda: list(stories.generate("", add_special_tokens=False)))) == ["prompt"]


@pytest.mark.parametrize("bad", [49152, 4294967295])
def test_ids_out_of_range_are_all_named_and_harm_nobody(smollm2, bad):
    # vllm-project/vllm#51795, #54195
    def capture(id):
        rows = selection_pb2.RowSelector(prompt=selection_pb2.PhaseRows(all=True, token_ids=[id]),
                                           generated=selection_pb2.PhaseRows(token_ids=[7, id]),
                                           exclude_token_ids=[id])
        derived = [derived_pb2.DerivedSpec(logit_lens=derived_pb2.LogitLens(token_ids=[id])),
                   derived_pb2.DerivedSpec(
                       direct_logit_attribution=derived_pb2.LogitAttribution(token_ids=[9, id], contrast_ids=[id, 9]))]
        return activations_pb2.CaptureSpec(
            rows=rows, hooks=[selection_pb2.HookSelector(hook=selection_pb2.HOOK_POINT_EMBED)], derived=derived)

    def everywhere(id):
        return list(smollm2.generate(
            [504, id], max_tokens=1, stop_token_ids=[5, id], logit_bias={id: 1.0}, allowed_token_ids=[6, id],
            capture=capture(id), logprobs=generation_pb2.LogprobsOptions(of_token_ids=[id])))

    expected = greedy(smollm2, [504, 3575, 282], max_tokens=24)
    running = smollm2.generate([504, 3575, 282], max_tokens=24, temperature=0,
                               logprobs=generation_pb2.LogprobsOptions(top_n=1))
    next(running)
    named = violations(lambda: everywhere(bad))
    assert set(named) == {
        "tokens.ids[1]", "stop.stop_token_ids[1]", f"sampling.logit_bias[{bad}]", "sampling.allowed_token_ids[1]",
        "logprobs.of_token_ids[0]", "capture.derived[0].logit_lens.token_ids[0]",
        "capture.derived[1].direct_logit_attribution.token_ids[1]",
        "capture.derived[1].direct_logit_attribution.contrast_ids[0]", "capture.rows.prompt.token_ids[0]",
        "capture.rows.generated.token_ids[1]", "capture.rows.exclude_token_ids[0]"}
    assert all(str(LARGEST) in text or "49152" in text for text in named.values()), named
    assert list(violations(lambda: smollm2.detokenize([5, bad]))) == ["ids[1]"]
    with pytest.raises(ValueError):
        everywhere(-1)
    assert [(e.id, e.logprob) for e in running if isinstance(e, headrace.Token)] == expected
    assert everywhere(LARGEST)
    assert smollm2.detokenize([LARGEST])
