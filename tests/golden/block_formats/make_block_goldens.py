#!/usr/bin/env python3
"""Makes ../data/block_formats/gguf_blocks.jsonl: random blocks of every
quantised type that we read, and their weights as the gguf package expands them.

    pip install gguf==0.17.1
    python make_block_goldens.py

Numbers and factors take all values; F16 fields are positive, negative,
subnormal, zero and the largest there is. Bytes and float32 values are written
in hexadecimal, little-endian.
"""

import json
import pathlib
import random

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

OUT = (
    pathlib.Path(__file__).parents[1]
    / "data" / "block_formats" / "gguf_blocks.jsonl"
)
# Where the F16 fields of a block are.
HALVES = {
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
}  # fmt: skip
# Of (scale, minimum), a block each.
FIELDS = [
    (0.0123, 0.0456),
    (-0.0371, 0.0911),
    (0.0077, -0.0213),
    (2.0**-24 * 5, 2.0**-24 * 1023),
    (-(2.0**-24), 0.0),
    (65504.0, -65504.0),
    (-0.0, -0.0),
]


def main():
    rng = random.Random(20)
    with OUT.open("w") as out:
        for name, halves in HALVES.items():
            qtype = GGMLQuantizationType[name]
            size = GGML_QUANT_SIZES[qtype][1]
            for fields in FIELDS:
                block = np.frombuffer(rng.randbytes(size), np.uint8).copy()
                for at, value in zip(halves, fields):
                    half = np.array([value], np.float16)
                    block[at : at + 2] = half.view(np.uint8)
                weights = quants.dequantize(block, qtype)
                assert weights.dtype == np.float32
                golden = {
                    "type": name,
                    "block": block.tobytes().hex(),
                    "weights": weights.astype("<f4").tobytes().hex(),
                }
                out.write(json.dumps(golden) + "\n")


if __name__ == "__main__":
    main()
