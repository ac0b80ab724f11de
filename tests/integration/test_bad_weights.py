"""Weights that are not numbers: an error that says so, for those it concerns."""
import json
import threading

import numpy as np
import pytest

import headrace
import model_files
from headrace.v1 import generation_pb2

BAD = 65  # a token whose embedding is not finite


def nan_in_norm(tensors):
    tensors["model.layers.1.post_attention_layernorm.weight"][5] = np.nan


def inf_in_mlp(tensors):
    tensors["model.layers.0.mlp.down_proj.weight"][3, 7] = np.inf


def nan_in_row(tensors):
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].copy()
    tensors["model.embed_tokens.weight"][BAD] = np.nan


def greedy(client, prompt):
    return [(e.id, e.logprob) for e in client.generate(prompt, max_tokens=6, temperature=0, ignore_eos=True,
                                                       logprobs=generation_pb2.LogprobsOptions(top_n=2))
            if isinstance(e, headrace.Token)]


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize("edit", [nan_in_norm, inf_in_mlp])
def test_an_answer_that_is_no_number_is_an_error(tmp_path, start, command_line, edit):
    # ikawrakow/ik_llama.cpp#1984, ollama/ollama#9639
    with start(model_files.write_folder(tmp_path / "model", edit=edit)) as address:
        with headrace.Client(address) as client:
            with pytest.raises(headrace.HeadraceError, match="position 2.*not finite"):
                greedy(client, [75, 104, 111])
        done = command_line(address, "generate", "--tokens", "75,104,111", "--logprobs", "2", "--json", text=True)
        assert done.returncode == 1 and "not finite" in done.stderr
        events = [json.loads(line, parse_constant=refuse_constant) for line in done.stdout.splitlines()]
        assert not any("token" in event for event in events)


def test_a_bad_row_concerns_only_those_who_read_it(tmp_path, start):
    # vllm-project/vllm#47346
    clean = model_files.write_folder(tmp_path / "clean", {"tie_word_embeddings": False},
                                     edit=lambda t: t.update({"lm_head.weight": t["model.embed_tokens.weight"].copy()}))
    with start(clean, "--numerics", "exact") as address, headrace.Client(address) as client:
        expected = greedy(client, [75, 104, 111])
    assert BAD not in [id for id, _ in expected]
    bad = model_files.write_folder(tmp_path / "bad", {"tie_word_embeddings": False}, edit=nan_in_row)
    with start(bad, "--numerics", "exact", metrics=True) as address, headrace.Client(address) as client:
        seen, refused = [], []

        def ask(prompt):
            try:
                seen.append(greedy(client, prompt))
            except headrace.HeadraceError as error:
                refused.append(str(error))

        prompts = 6 * [[75, 104, 111], [75, BAD, 111]]
        threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in prompts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert seen == 6 * [expected]
        assert len(refused) == 6 and all("not finite" in message for message in refused)
        assert address.becomes_idle()
