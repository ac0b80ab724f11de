"""A LlamaForCausalLM small enough to be kept, as a checkpoint whose matrices some
library packed, and what transformers computes from their dequantised weights
(float32, eager)."""
import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save
from transformers import LlamaConfig, LlamaForCausalLM

HERE = pathlib.Path(__file__).parent

HIDDEN, FFN, HEADS, KV_HEADS, VOCAB = 64, 128, 4, 2, 64
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu",
    "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": 1,
    "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "vocab_size": VOCAB,
    "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "torch_dtype": "float16",
}  # fmt: skip
MATRICES = {
    "self_attn.q_proj": (HIDDEN, HIDDEN), "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.v_proj": (HIDDEN // 2, HIDDEN), "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (FFN, HIDDEN), "mlp.up_proj": (FFN, HIDDEN), "mlp.down_proj": (HIDDEN, FFN),
}  # fmt: skip


def make(name, case, arrays, rng, pack, quantization_config):
    """Writes NAME/config.json and NAME/model.safetensors. pack(weights, case, rng)
    gives the tensors of a matrix and the weights that they stand for. Of the case,
    keep: matrices that are not packed; lm_head: is not tied, and packed too."""
    tied = not case.get("lm_head", False)
    plain = {**CONFIG, "tie_word_embeddings": tied}
    config = {**plain, "quantization_config": quantization_config}
    stored, state, rows = {}, {}, {}

    def add_plain(key, values):
        stored[key] = torch.tensor(values.astype(np.float16))
        state[key] = stored[key].float()

    def add_packed(module, shape):
        tensors, expanded = pack(rng.normal(0, 0.6 / shape[1] ** 0.5, shape) + 0.02, case, rng)
        stored.update({f"{module}.{k}": v for k, v in tensors.items()})
        state[f"{module}.weight"] = torch.tensor(expanded)
        rows[f"{module}.weight"] = arrays.add(expanded[[0, 13, -1]])

    add_plain("model.embed_tokens.weight", rng.normal(0, 0.5, (VOCAB, HIDDEN)))
    for norm in ("layers.0.input_layernorm", "layers.0.post_attention_layernorm", "norm"):
        add_plain(f"model.{norm}.weight", 1 + rng.normal(0, 0.1, HIDDEN))
    for matrix, shape in MATRICES.items():
        module = f"model.layers.0.{matrix}"
        if matrix in case.get("keep", []):
            add_plain(f"{module}.weight", rng.normal(0, 0.6 / shape[1] ** 0.5, shape))
        else:
            add_packed(module, shape)
        if case.get("zero_bias"):
            stored[f"{module}.bias"] = torch.zeros(shape[0], dtype=torch.float16)
    if not tied:
        add_packed("lm_head", (VOCAB, HIDDEN))

    model = LlamaForCausalLM(LlamaConfig(**plain, attn_implementation="eager")).eval().float()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert missing == (["lm_head.weight"] if tied else []) and not unexpected, (missing, unexpected)
    model.tie_weights()
    ids = rng.integers(0, VOCAB, 12).tolist()
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0].numpy()
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(save(stored, metadata={"format": "pt"}))
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    return {"name": name, "ids": ids, "logits": arrays.add(logits), "rows": rows}
