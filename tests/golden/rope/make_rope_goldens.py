#!/usr/bin/env python3
"""Makes ../data/rope/transformers_rope.jsonl: RoPE frequencies of random
configurations, as Hugging Face transformers computes them.

    pip install torch==2.13.0 transformers==5.24.0
    python make_rope_goldens.py

transformers computes in float32. What we want to know is whether the formulas
are the same, so its code runs here with float32 widened to float64.
"""

import json
import math
import pathlib
import random

import torch

torch.float = torch.float32 = torch.float64
torch.Tensor.float = torch.Tensor.double

import transformers  # noqa: E402  (after the widening)
from transformers import LlamaConfig, Phi3Config  # noqa: E402
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: E402
from transformers.models.llama.modeling_llama import (  # noqa: E402
    LlamaRotaryEmbedding,
)

OUT = pathlib.Path(__file__).parents[1] / "data" / "rope" / "transformers_rope.jsonl"
CASES_PER_TYPE = 12


def random_scaling(rng, rope_type, num_pairs, positions):
    """Keys of one scaling, without its type."""
    factor = rng.choice([1, 1.5, 2, 4, 8, 40.0, rng.uniform(1, 32)])
    if rope_type == "default":
        return {}
    if rope_type in ("linear", "dynamic"):
        return {"factor": factor}
    if rope_type == "proportional":
        return rng.choice([{}, {"factor": factor}])
    original = positions // rng.choice([1, 2, 4, 8])
    if rope_type == "yarn":
        scaling = {"factor": factor, "original_max_position_embeddings": original}
        optional = {
            "attention_factor": rng.choice([1.0, 1.4852]),
            "beta_fast": rng.choice([32, 24.5, 8]),
            "beta_slow": rng.choice([1, 0.5, 2.25]),
            "truncate": rng.random() < 0.5,
        }
        if rng.random() < 0.5:
            scaling |= {"mscale": rng.choice([1.0, 0.707]),
                        "mscale_all_dim": rng.choice([1.0, 0.707, 0.0])}
        return scaling | {k: v for k, v in optional.items() if rng.random() < 0.4}
    if rope_type == "longrope":
        scaling = {
            "short_factor": [round(rng.uniform(1, 2), 4) for _ in range(num_pairs)],
            "long_factor": [round(rng.uniform(1, 60), 3) for _ in range(num_pairs)],
            "original_max_position_embeddings": positions // rng.choice([1, 8, 32]),
        }
        optional = {"factor": factor, "attention_factor": 1.19}
        return scaling | {k: v for k, v in optional.items() if rng.random() < 0.3}
    assert rope_type == "llama3", rope_type
    return {
        "factor": factor,
        "low_freq_factor": rng.choice([1, 0.5]),
        "high_freq_factor": rng.choice([4, 4.0, 2.5]),
        "original_max_position_embeddings": positions // rng.choice([2, 4, 16]),
    }


def random_config(rng, rope_type):
    """A config.json, in the form of transformers 4 or 5."""
    head_dim = rng.choice([8, 16, 32, 64])
    heads = rng.choice([2, 3, 8])
    positions = rng.choice([512, 2048, 4096, 32768, 131072])
    theta = rng.choice([10000.0, 100000.0, 500000, 1000000.0, 150000.0])
    config = {
        "model_type": "llama",
        "hidden_size": head_dim * heads,
        "num_attention_heads": heads,
        "max_position_embeddings": positions,
    }
    if rng.random() < 0.5:  # a head that is not hidden_size / heads
        config["hidden_size"] = 16 * heads
        config["head_dim"] = head_dim
    partial = 1.0
    if rope_type == "proportional" or rng.random() < 0.25:
        partial = rng.choice([0.25, 0.5, 0.75])
    num_pairs = int(head_dim * partial) // 2
    scaling = random_scaling(rng, rope_type, num_pairs, positions)
    if rope_type == "longrope" and rng.random() < 0.5:  # Phi-3 keeps it outside
        config["model_type"] = "phi3"
        config["hidden_size"] = head_dim * heads  # its config has no head_dim
        config.pop("head_dim", None)
        config["original_max_position_embeddings"] = scaling[
            "original_max_position_embeddings"
        ]
        scaling["original_max_position_embeddings"] = 7
    if rng.random() < 0.5:
        key = rng.choice(["type", "rope_type"])
        config["rope_theta"] = theta
        if partial != 1.0:
            config["partial_rotary_factor"] = partial
        config["rope_scaling"] = {key: rope_type} | scaling
    else:
        scaling |= {"rope_type": rope_type, "rope_theta": theta}
        if partial != 1.0:
            scaling["partial_rotary_factor"] = partial
        config["rope_parameters"] = scaling
    return config


def compute(config, seq_len):
    arguments = json.loads(json.dumps(config))
    cls = {"llama": LlamaConfig, "phi3": Phi3Config}[arguments.pop("model_type")]
    if cls is Phi3Config:
        arguments["pad_token_id"] = 0
    built = cls(**arguments)
    rope_type = built.rope_parameters["rope_type"]
    if rope_type == "default":
        partial = built.rope_parameters.get("partial_rotary_factor", 1.0)
        if partial != 1.0:  # LlamaRotaryEmbedding turns the whole head
            built.head_dim = int(built.head_dim * partial)
        inv_freq, factor = LlamaRotaryEmbedding.compute_default_rope_parameters(built)
    else:
        inv_freq, factor = ROPE_INIT_FUNCTIONS[rope_type](
            built, device="cpu", seq_len=seq_len
        )
    assert inv_freq.dtype == torch.float64, inv_freq.dtype
    return inv_freq.tolist(), factor


def main():
    rng = random.Random(20090)
    cases = []
    types = ["default", *sorted(ROPE_INIT_FUNCTIONS)]
    for rope_type in types:
        for _ in range(CASES_PER_TYPE):
            config = random_config(rng, rope_type)
            positions = config["max_position_embeddings"]
            seq_len = rng.choice([16, positions, positions + 1, 3 * positions])
            inv_freqs, factor = compute(config, seq_len)
            assert all(math.isfinite(f) for f in inv_freqs)
            cases.append({
                "config": config,
                "seq_len": seq_len,
                "inv_freqs": [float(f"{f:.13e}") for f in inv_freqs],
                "attention_factor": factor,
            })
    OUT.parent.mkdir(parents=True, exist_ok=True)
    with OUT.open("w") as out:
        json.dump({"transformers": transformers.__version__}, out)
        out.write("\n")
        for case in cases:
            out.write(json.dumps(case) + "\n")
    print(f"{OUT}: {len(cases)} cases of {types}")


if __name__ == "__main__":
    main()
