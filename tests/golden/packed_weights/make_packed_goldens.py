"""Makes small GPTQ and AWQ checkpoints with the libraries that define them, and
what transformers computes from their dequantised weights: CASE/config.json,
CASE/model.safetensors and packed_goldens.{json,bin}.

    pip install torch==2.14.1 transformers==4.57.3 safetensors==0.8.0 accelerate==1.15.0 numpy
    pip install --no-deps auto-gptq==0.7.1 autoawq==0.2.9
    python make_packed_goldens.py

Matrices are packed by AutoGPTQ's QuantLinear.pack() or AutoAWQ's
WQLinear_GEMM.from_linear(), and expanded again by the same library in float32;
numpy's own reading of the layouts has to agree in every bit. A LlamaForCausalLM
with these weights gives the logits (float32, eager).

GPTQ's first format keeps zero points minus one. AutoGPTQ loses a zero point of
0 in it, so there is none; gptq_v2 is that with one added to each.

Numbers are float32 in the .bin; the .json says where each array begins.
"""
import importlib
import importlib.machinery
import importlib.util
import json
import pathlib
import sys
import types

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from golden_arrays import Arrays
from packed_checkpoint import make

# keep: matrices that are not packed; lm_head: is not tied, and packed too.
CASES = {
    "gptq_32": dict(method="gptq", bits=4, group_size=32, sym=False, lm_head=True),
    "gptq_v2_128": dict(method="gptq", bits=4, group_size=128, sym=False, v2=True),
    "gptq_sym_64": dict(method="gptq", bits=4, group_size=64, sym=True, keep=["mlp.up_proj"], zero_bias=True),
    "gptq_act_order": dict(method="gptq", bits=4, group_size=32, sym=True, desc_act=True),
    "gptq_8_row": dict(method="gptq", bits=8, group_size=-1, sym=False),
    "gptq_group_16": dict(method="gptq", bits=4, group_size=16, sym=False),
    "awq_32": dict(method="awq", bits=4, group_size=32, sym=False, keep=["self_attn.k_proj"]),
    "awq_row": dict(method="awq", bits=4, group_size=-1, sym=False),
}  # fmt: skip


def load(package, module):
    """A module of a package without running the package's __init__, which would
    want CUDA or other libraries."""
    root = pathlib.Path(importlib.util.find_spec(package).submodule_search_locations[0])
    parts = module.split(".")
    for i in range(len(parts)):
        name = ".".join([package, *parts[:i]])
        if name not in sys.modules:
            stub = types.ModuleType(name)
            stub.__spec__ = importlib.machinery.ModuleSpec(name, None, is_package=True)
            stub.__spec__.submodule_search_locations = [str(root.joinpath(*parts[:i]))]
            stub.__path__ = [str(root.joinpath(*parts[:i]))]
            sys.modules[name] = stub
    return importlib.import_module(f"{package}.{module}")


gptq = load("auto_gptq", "nn_modules.qlinear.qlinear_cuda")
awq = load("awq", "modules.linear.gemm")
awq_packing = load("awq", "utils.packing_utils")


def groups_of(inputs, case, rng):
    size = inputs if case["group_size"] < 0 else case["group_size"]
    groups = np.arange(inputs) // size
    if case.get("desc_act"):
        groups = groups[np.argsort(rng.permutation(inputs))]
    return groups.astype(np.int32)


def quantize(weights, groups, case):
    """Round to nearest: numbers [out, in], scales (F16 numbers) and zeros [out, groups]."""
    most, count = 2 ** case["bits"] - 1, groups.max() + 1
    scales, zeros = np.zeros((len(weights), count), np.float32), np.zeros((len(weights), count), np.int64)
    for g in range(count):
        part = weights[:, groups == g]
        if case["sym"]:
            scales[:, g] = np.float16(2 * np.abs(part).max(1) / most)
            zeros[:, g] = (most + 1) // 2
        else:
            scales[:, g] = np.float16((part.max(1) - part.min(1)) / most)
            zeros[:, g] = np.clip(np.round(-part.min(1) / scales[:, g]), 1, most)
    numbers = np.clip(np.round(weights / scales[:, groups]) + zeros[:, groups], 0, most).astype(np.int64)
    return numbers, scales, zeros


def unpack(words, bits):
    """[rows, columns] of int32 to [rows, columns, numbers], lowest bits first."""
    shifts = np.arange(0, 32, bits, dtype=np.uint32)
    return (words.view(np.uint32)[:, :, None] >> shifts & (2**bits - 1)).astype(np.int64)


def expand_by_numpy(tensors, groups, case):
    words, zeros = (tensors[k].numpy() for k in ("qweight", "qzeros"))
    if case["method"] == "gptq":
        numbers = unpack(words.T.copy(), case["bits"]).reshape(words.shape[1], -1)  # [out, in]
        zeros = unpack(zeros, case["bits"]).reshape(len(zeros), -1) + (0 if case.get("v2") else 1)
    else:
        places = [0, 4, 1, 5, 2, 6, 3, 7]
        numbers = unpack(words, 4)[:, :, places].reshape(len(words), -1).T
        zeros = unpack(zeros, 4)[:, :, places].reshape(len(zeros), -1)
    scales = tensors["scales"].numpy().astype(np.float32)
    return scales[groups].T * (numbers - zeros[groups].T).astype(np.float32)


def pack(weights, case, rng):
    """The tensors of a checkpoint, and the weights that they stand for."""
    groups = groups_of(weights.shape[1], case, rng)
    numbers, scales, zeros = quantize(weights, groups, case)
    out, inputs = weights.shape
    linear = torch.nn.Linear(inputs, out, bias=False)
    linear.weight.data = torch.tensor((numbers - zeros[:, groups]).astype(np.float32) * scales[:, groups])
    t = {"scales": torch.tensor(scales), "zeros": torch.tensor(zeros)}
    if case["method"] == "gptq":
        layer = gptq.QuantLinear(case["bits"], case["group_size"], inputs, out, False, weight_dtype=torch.float32)
        layer.pack(linear, t["scales"].clone(), t["zeros"].clone(), torch.tensor(groups))
        expanded = layer(torch.eye(inputs)).T.numpy()
        tensors = {"qweight": layer.qweight, "qzeros": layer.qzeros, "scales": layer.scales.half(), "g_idx": layer.g_idx}
        if case.get("v2"):
            tensors["qzeros"] = torch.tensor((layer.qzeros.numpy().view(np.uint32) + np.uint32(0x11111111)).view(np.int32))
    else:
        layer = awq.WQLinear_GEMM.from_linear(
            linear, 4, inputs if case["group_size"] < 0 else case["group_size"], scales=t["scales"].T.contiguous(), zeros=t["zeros"].T.contiguous())
        expanded = awq_packing.dequantize_gemm(
            layer.qweight, layer.qzeros, layer.scales.float(), 4, layer.group_size).T.numpy()
        tensors = {"qweight": layer.qweight, "qzeros": layer.qzeros, "scales": layer.scales}
    assert np.array_equal(expanded, expand_by_numpy(tensors, groups, case))
    assert np.array_equal(expanded, linear.weight.data.numpy())
    return {k: v.contiguous() for k, v in tensors.items()}, np.ascontiguousarray(expanded, np.float32)


def quantization_config(case):
    if case["method"] == "awq":
        return {"quant_method": "awq", "bits": 4, "group_size": case["group_size"], "zero_point": True,
                "version": "gemm", "modules_to_not_convert": case.get("keep")}  # fmt: skip
    return {"quant_method": "gptq", "bits": case["bits"], "group_size": case["group_size"], "sym": case["sym"],
            "desc_act": case.get("desc_act", False),
            "checkpoint_format": "gptq_v2" if case.get("v2") else "gptq"}  # fmt: skip


def main():
    torch.set_num_threads(1)
    arrays = Arrays()
    cases = [make(name, case, arrays, np.random.default_rng(seed), pack, quantization_config(case))
             for seed, (name, case) in enumerate(CASES.items())]  # fmt: skip
    (HERE / "packed_goldens.json").write_text(json.dumps({"rows": [0, 13, -1], "cases": cases}, separators=(",", ":")))
    (HERE / "packed_goldens.bin").write_bytes(b"".join(arrays.data))


if __name__ == "__main__":
    main()
