"""Attention's rows and stored vectors through the command line, on SmolLM2-135M."""
import hashlib
import json
import struct

import numpy as np

PROMPT = "The capital of France is"


def trace(command_line, address, out, *flags):
    done = command_line(address, "trace", "--prompt", PROMPT, "--out", str(out), *flags, text=True)
    assert done.returncode == 0 and done.stderr == "", done
    return np.load(out)


def test_trace_writes_patterns_by_head(smollm2_address, command_line, tmp_path):
    arrays = trace(command_line, smollm2_address, tmp_path / "rows.npz", "--hooks", "attn_scores,attn_probs,v,z",
                   "--layers", "0,-1", "--heads", "0,4:6", "--max_tokens", "3", "--temperature", "0",
                   "--rows", "all", "--compress")
    for layer in (0, 29):
        name = f"blocks.{layer}.attn.hook_pattern"
        pattern, scores = arrays[name], arrays[f"blocks.{layer}.attn.hook_attn_scores"]
        assert pattern.shape == scores.shape == (3, 7, 7)
        assert arrays[name + ".heads"].tolist() == [0, 4, 5]
        assert np.all(np.triu(pattern[0], 1) == 0) and np.all(np.isneginf(scores[:, 0, 1:]))
        np.testing.assert_allclose(pattern.sum(-1), 1, atol=1e-6)
        exponentials = np.exp(scores - scores.max(-1, keepdims=True))
        np.testing.assert_allclose(pattern, exponentials / exponentials.sum(-1, keepdims=True), atol=1e-6)
        v = arrays[f"blocks.{layer}.attn.hook_v"].reshape(7, 3, 64)
        z = arrays[f"blocks.{layer}.attn.hook_z"].reshape(7, 9, 64)
        for i, head in enumerate((0, 4, 5)):
            np.testing.assert_allclose(pattern[i] @ v[:, head // 3], z[:, head], atol=1e-4)


def test_trace_keeps_the_largest_keys(smollm2_address, command_line, tmp_path):
    flags = ("--hooks", "attn_probs", "--layers", "5", "--heads", "2", "--rows", "last")
    full = trace(command_line, smollm2_address, tmp_path / "full.npz", *flags)["blocks.5.attn.hook_pattern"][0, 0]
    arrays = trace(command_line, smollm2_address, tmp_path / "top.npz", *flags, "--top_keys", "2")
    keys = arrays["blocks.5.attn.hook_pattern.keys"][0, 0]
    assert keys.tolist() == np.argsort(-full)[:2].tolist()
    assert arrays["blocks.5.attn.hook_pattern"][0, 0].tolist() == full[keys].tolist()


def test_directions_of_an_autoencoder_are_imported(smollm2_address, command_line, tmp_path):
    decoder = np.arange(4 * 576, dtype="<f4").reshape(4, 576)
    header = json.dumps({"W_dec": {"dtype": "F32", "shape": [4, 576], "data_offsets": [0, decoder.nbytes]}}).encode()
    path = tmp_path / "sae_weights.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + decoder.tobytes())

    done = command_line(smollm2_address, "vectors", "import", str(path), "--features", "3,1", text=True)
    assert done.returncode == 0, done
    digests = [hashlib.sha256(decoder[feature].tobytes()).hexdigest() for feature in (3, 1)]
    assert done.stdout == f"feature 3  {digests[0]}\nfeature 1  {digests[1]}\n"
    done = command_line(smollm2_address, "vectors", "import", str(path), text=True)
    assert done.returncode == 1 and "--features is missing: W_dec has 4" in done.stderr
