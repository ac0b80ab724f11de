"""Makes hook_goldens.{json,bin}: what transformers computes inside each
sublayer of SmolLM2-135M-Instruct Q4_1, dequantised, in float32, eager.

    pip install torch==2.13.0 transformers==4.57.3 tokenizers==0.22.2 gguf==0.17.1 numpy
    python make_hook_goldens.py MODEL.gguf

For the last row of one prompt: every hook of one layer in full, and of every
layer its products with two fixed +-1 vectors. Names are the engine's; queries
and keys are in Hugging Face's order of channels.
"""
import json
import sys

import numpy as np
import torch
from make_smollm2_goldens import Arrays, PROMPTS, load, splitmix_signs
from transformers.models.llama import modeling_llama

WHOLE_LAYER = 17
PROJECTIONS = 2


def hook_rows(model, ids):
    """{hook: [per layer, the last row]}."""
    rows = {}

    def keep(name, value):
        rows.setdefault(name, []).append(value.detach().reshape(len(ids), -1)[-1].numpy().astype(np.float32))

    def outputs(module, name):
        module.register_forward_hook(lambda _m, _i, out: keep(name, out))

    def inputs(module, name):
        module.register_forward_pre_hook(lambda _m, args: keep(name, args[0]))

    def norm(module, name):
        outputs(module, name + "_out")
        module.register_forward_pre_hook(lambda m, args: keep(
            name + "_scale", (args[0].double().pow(2).mean(-1, keepdim=True) + m.variance_epsilon).sqrt()))

    for layer in model.model.layers:
        norm(layer.input_layernorm, "attn_norm")
        outputs(layer.self_attn.q_proj, "q")
        outputs(layer.self_attn.k_proj, "k")
        outputs(layer.self_attn.v_proj, "v")
        inputs(layer.self_attn.o_proj, "z")
        norm(layer.post_attention_layernorm, "mlp_norm")
        outputs(layer.mlp.gate_proj, "mlp_gate")
        outputs(layer.mlp.up_proj, "mlp_up")
        inputs(layer.mlp.down_proj, "mlp_act")
    norm(model.model.norm, "final_norm")
    rotate = modeling_llama.apply_rotary_pos_emb

    def rotate_and_keep(*args, **kwargs):
        q, k = rotate(*args, **kwargs)  # [batch, heads, rows, head_dim]
        keep("q_rotated", q.transpose(1, 2))
        keep("k_rotated", k.transpose(1, 2))
        return q, k

    modeling_llama.apply_rotary_pos_emb = rotate_and_keep
    with torch.no_grad():
        model(torch.tensor([ids]))
    modeling_llama.apply_rotary_pos_emb = rotate
    return rows


def main():
    torch.set_num_threads(1)
    model, tokenizer = load(sys.argv[1])
    ids = tokenizer.encode(PROMPTS[1]).ids
    arrays, hooks = Arrays(), {}
    for name, layers in hook_rows(model, ids).items():
        whole = layers[WHOLE_LAYER if len(layers) > 1 else 0]
        signs = splitmix_signs(PROJECTIONS * whole.size, 1).reshape(PROJECTIONS, whole.size)
        hooks[name] = {"layers": len(layers), "row": arrays.add(whole),
                       "norms": arrays.add(np.array([np.linalg.norm(row.astype(np.float64)) for row in layers])),
                       "projections": arrays.add(np.stack([signs @ row.astype(np.float64) for row in layers]))}
    with open("hook_goldens.bin", "wb") as file:
        file.write(b"".join(arrays.data))
    with open("hook_goldens.json", "w") as file:
        json.dump({"ids": ids, "whole_layer": WHOLE_LAYER, "hooks": hooks}, file, indent=1)


if __name__ == "__main__":
    main()
