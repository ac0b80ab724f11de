"""Makes smollm2_goldens.{json,bin}: what transformers computes from the
dequantised weights of SmolLM2-135M-Instruct Q4_1, in float32, eager.

    pip install torch==2.13.0 transformers==4.57.3 tokenizers==0.22.2 gguf==0.17.1 numpy
    python make_smollm2_goldens.py MODEL.gguf

Per prompt (4 to 400 tokens): its ids; for every layer and row the L2 norm of
RESID_POST and its products with four fixed +-1 vectors (an error in a row shows
in them); whole rows of a few layers at the last position; the last row's
logits, every 96th and the 16 largest; 64 greedy tokens with the gap between the
two largest logits at each. The +-1 vectors come from SplitMix64, so that a
reader can make them again.

Numbers are float32 in the .bin; the .json says where each array begins.
"""
import json
import pathlib
import sys

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM

sys.path.append(str(pathlib.Path(__file__).parent.parent))
from golden_arrays import Arrays

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a land of 3 rivers and 14 mills,",
    "def fibonacci(n):\n    if n < 2:\n        return n\n    return fibonacci(n - 1) + fibonacci(n - 2)\n\nprint([fibonacci(i) for i in range(10)])",
    "Water flows down the head race, turns the wheel, and leaves by the tail race. " * 8,
    "In the beginning the valley was quiet. Then the millers came, and with them the sound of stone on stone. "
    "They dug a channel from the river, lined it with clay, and set a gate of oak at its mouth. " * 9,
]
TARGET_LENGTHS = [4, 14, 40, 120, 400]
PROJECTIONS = 4
WHOLE_ROW_LAYERS = [0, 9, 19, 28, 29]
LOGIT_STRIDE = 96
TOP_LOGITS = 16
GREEDY = 64


def splitmix_signs(count, seed):
    """count values of +-1: the top bit of SplitMix64's outputs."""
    out, state, mask = [], seed, (1 << 64) - 1
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        out.append(1.0 if (z ^ (z >> 31)) >> 63 else -1.0)
    return np.array(out, np.float64)


def value(reader, key):
    return reader.get_field(key).contents()


def unpermute(matrix, heads):
    """GGUF rows (interleaved pairs) to Hugging Face's (half-split)."""
    rows, columns = matrix.shape
    return matrix.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load(path):
    reader = gguf.GGUFReader(path)
    heads, kv = value(reader, "llama.attention.head_count"), value(reader, "llama.attention.head_count_kv")
    layers = value(reader, "llama.block_count")
    tensors = {t.name: np.array(gguf.quants.dequantize(t.data, t.tensor_type), np.float32) for t in reader.tensors}
    config = LlamaConfig(
        hidden_size=value(reader, "llama.embedding_length"),
        intermediate_size=value(reader, "llama.feed_forward_length"),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv,
        rms_norm_eps=value(reader, "llama.attention.layer_norm_rms_epsilon"),
        rope_theta=value(reader, "llama.rope.freq_base"), vocab_size=tensors["token_embd.weight"].shape[0],
        max_position_embeddings=value(reader, "llama.context_length"), tie_word_embeddings=True)
    config._attn_implementation = "eager"
    state = {"model.embed_tokens.weight": tensors["token_embd.weight"], "model.norm.weight": tensors["output_norm.weight"]}
    names = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
             "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
             "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    for layer in range(layers):
        for ours, theirs in names.items():
            matrix = tensors[f"blk.{layer}.{ours}.weight"]
            if ours in ("attn_q", "attn_k"):
                matrix = unpermute(matrix, heads if ours == "attn_q" else kv)
            state[f"model.layers.{layer}.{theirs}.weight"] = matrix
    model = LlamaForCausalLM(config).eval()
    missing, unexpected = model.load_state_dict({k: torch.tensor(v) for k, v in state.items()}, strict=False)
    assert missing == ["lm_head.weight"] and not unexpected, (missing, unexpected)
    model.tie_weights()
    tokens, merges = value(reader, "tokenizer.ggml.tokens"), value(reader, "tokenizer.ggml.merges")
    tokenizer = Tokenizer(models.BPE({t: i for i, t in enumerate(tokens)}, [tuple(m.split(" ")) for m in merges]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    return model, tokenizer


def residuals(model, ids):
    """RESID_POST of every layer [layers, rows, hidden], and the logits."""
    rows = []
    hooks = [layer.register_forward_hook(lambda _m, _i, out: rows.append(out[0] if isinstance(out, tuple) else out))
             for layer in model.model.layers]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    for hook in hooks:
        hook.remove()
    return torch.stack([r.reshape(len(ids), -1) for r in rows]).numpy(), logits.numpy()


def greedy(model, ids):
    out, gaps = [], []
    with torch.no_grad():
        step = model(torch.tensor([ids]), use_cache=True)
        for _ in range(GREEDY):
            top = torch.topk(step.logits[0, -1], 2)
            out.append(int(top.indices[0]))
            gaps.append(float(top.values[0] - top.values[1]))
            step = model(torch.tensor([[out[-1]]]), past_key_values=step.past_key_values, use_cache=True)
    return out, gaps


def main():
    torch.set_num_threads(1)
    model, tokenizer = load(sys.argv[1])
    hidden = model.config.hidden_size
    signs = splitmix_signs(PROJECTIONS * hidden, 1).reshape(PROJECTIONS, hidden)
    arrays, cases = Arrays(), []
    for text, length in zip(PROMPTS, TARGET_LENGTHS):
        ids = tokenizer.encode(text).ids[:length]
        assert len(ids) == length, (len(ids), length)
        resid, logits = residuals(model, ids)
        wide = resid.astype(np.float64)
        tokens, gaps = greedy(model, ids)
        top = np.argsort(-logits[-1], kind="stable")[:TOP_LOGITS]
        cases.append({
            "ids": ids, "greedy": tokens, "greedy_gap": gaps,
            "norm": arrays.add(np.linalg.norm(wide, axis=2)),
            "projections": arrays.add(wide @ signs.T),
            "rows": {str(l): arrays.add(resid[l, -1]) for l in WHOLE_ROW_LAYERS},
            "logits": arrays.add(logits[-1][::LOGIT_STRIDE]),
            "top_ids": top.tolist(), "top_logits": arrays.add(logits[-1][top]),
        })
    meta = {"projections": PROJECTIONS, "sign_seed": 1, "logit_stride": LOGIT_STRIDE, "cases": cases}
    with open("smollm2_goldens.json", "w") as f:
        json.dump(meta, f, separators=(",", ":"))
    with open("smollm2_goldens.bin", "wb") as f:
        f.write(b"".join(arrays.data))


if __name__ == "__main__":
    main()
