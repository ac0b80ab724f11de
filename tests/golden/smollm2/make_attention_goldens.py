"""Makes attention_goldens.{json,bin}: attention's scores and probabilities in
SmolLM2-135M-Instruct Q4_1, dequantised, as transformers computes them in
float32, eager.

    pip install torch==2.13.0 transformers==4.57.3 tokenizers==0.22.2 gguf==0.17.1 numpy
    python make_attention_goldens.py MODEL.gguf

Of a short prompt, the last row of every layer and head; of a long one, the last
row of every head of one layer.
"""
import json
import sys

import numpy as np
import torch
from make_smollm2_goldens import Arrays, PROMPTS, load

SHORT = PROMPTS[1]
LONG = max(PROMPTS, key=len)
LONG_LAYER = 17


def last_rows(model, ids):
    """(scores, probabilities), [layers, heads, keys] each, of the last row."""
    scores, softmax = [], torch.nn.functional.softmax

    def keep_and_softmax(weights, *args, **kwargs):
        scores.append(weights[0, :, -1])
        return softmax(weights, *args, **kwargs)

    torch.nn.functional.softmax = keep_and_softmax
    try:
        with torch.no_grad():
            out = model(torch.tensor([ids]), output_attentions=True)
    finally:
        torch.nn.functional.softmax = softmax
    probs = [layer[0, :, -1] for layer in out.attentions]
    return torch.stack(scores).numpy(), torch.stack(probs).numpy()


def main():
    torch.set_num_threads(1)
    model, tokenizer = load(sys.argv[1])
    arrays, cases = Arrays(), []
    for text, layers in ((SHORT, None), (LONG, [LONG_LAYER])):
        ids = tokenizer.encode(text).ids
        scores, probs = last_rows(model, ids)
        layers = layers or list(range(len(scores)))
        cases.append({"ids": ids, "layers": layers,
                      "attn_scores": arrays.add(np.ascontiguousarray(scores[layers], np.float32)),
                      "attn_probs": arrays.add(np.ascontiguousarray(probs[layers], np.float32))})
    with open("attention_goldens.bin", "wb") as file:
        file.write(b"".join(arrays.data))
    with open("attention_goldens.json", "w") as file:
        json.dump({"cases": cases}, file)


if __name__ == "__main__":
    main()
