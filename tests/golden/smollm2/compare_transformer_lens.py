"""Compares every hook that headrace and TransformerLens both have.

    pip install torch==2.13.0 transformer-lens==4.3.0 gguf==0.17.1 numpy
    headrace-server --model MODEL.gguf --numerics exact &
    headrace trace --tokens IDS --hooks HOOKS --layers all --out TRACE.npz
    python compare_transformer_lens.py MODEL.gguf TRACE.npz

IDS and HOOKS are printed when TRACE.npz is left out. TransformerLens runs the
same dequantised weights in float32, eager, through its bridge to transformers.
An error is the greatest difference in a row, relative to the row's norm (to its
greatest value for scales); the table has the greatest over all rows and layers.
Hooks that TransformerLens names but computes otherwise are listed below it.
"""
import re
import sys
import tempfile

import numpy as np
import torch
from make_smollm2_goldens import PROMPTS, load
from transformers import PreTrainedTokenizerFast

HOOKS = ["embed", "resid_pre", "attn_norm_scale", "q", "k", "v", "q_rotated", "k_rotated", "z", "attn_out",
         "resid_mid", "mlp_norm_scale", "mlp_gate", "mlp_up", "mlp_act", "mlp_out", "resid_post", "final_norm_scale",
         "logits"]


def transformer_lens_cache(model, tokenizer, ids):
    from transformer_lens.model_bridge import TransformerBridge
    model.config.architectures = ["LlamaForCausalLM"]
    with tempfile.TemporaryDirectory() as folder:  # the bridge loads its tokenizer again
        PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>",
                                pad_token="<|endoftext|>").save_pretrained(folder)
        bridge = TransformerBridge.boot_transformers(
            "SmolLM2", hf_model=model, device="cpu", dtype=torch.float32,
            tokenizer=PreTrainedTokenizerFast.from_pretrained(folder))
    with torch.no_grad():
        logits, cache = bridge.run_with_cache(torch.tensor([ids]))
    arrays = {name: value.detach().float().numpy() for name, value in cache.items()
              if isinstance(value, torch.Tensor)}
    arrays["logits"] = logits.numpy()
    return arrays


def rows_of(name, value, count):
    """[rows, width], heads side by side."""
    if re.search(r"hook_rot_[qk]$", name) and value.shape[-2] == count:  # [batch, heads, rows, head_dim]
        value = np.swapaxes(value, 1, 2)
    return value.reshape(count, -1).astype(np.float64)


def main():
    torch.set_num_threads(1)
    model, tokenizer = load(sys.argv[1])
    ids = tokenizer.encode(PROMPTS[1]).ids
    if len(sys.argv) < 3:
        print("--tokens", ",".join(map(str, ids)), "--hooks", ",".join(HOOKS))
        return
    theirs = transformer_lens_cache(model, tokenizer, ids)
    errors, missing = {}, set()
    with np.load(sys.argv[2]) as ours:
        for name in ours.files:
            if name in ("tokens", "positions"):
                continue
            hook = re.sub(r"blocks\.\d+\.", "blocks.{l}.", name)
            if name not in theirs:
                missing.add(hook)
                continue
            a = ours[name].reshape(len(ids), -1).astype(np.float64)
            b = rows_of(name, theirs[name], len(ids))
            if a.shape != b.shape:
                missing.add(f"{hook}: {a.shape[1]} values here, {b.shape[1]} there")
                continue
            size = np.abs(b).max() if a.shape[1] == 1 else np.linalg.norm(b, axis=1, keepdims=True)
            worst = errors.setdefault(hook, [0.0, 0.0])
            worst[0] = max(worst[0], float((np.abs(a - b) / size).max()))
            worst[1] = max(worst[1], float(np.abs(a - b).max()))
    print("| hook | greatest error, of the row's norm | absolute |\n|---|---|---|")
    for hook, (relative, absolute) in errors.items():
        print(f"| `{hook}` | {relative:.1e} | {absolute:.1e} |")
    for hook in sorted(missing):
        print("not compared:", hook)


if __name__ == "__main__":
    main()
