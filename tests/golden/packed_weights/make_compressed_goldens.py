"""Makes small checkpoints of compressed-tensors with the library that defines
them: CASE/config.json, CASE/model.safetensors and compressed_goldens.{json,bin}.

    pip install torch==2.14.1 transformers==4.57.3 safetensors==0.8.0 accelerate==1.15.0 numpy
    pip install compressed-tensors==0.12.2
    python make_compressed_goldens.py

Weights are rounded and packed by the compressor of each format, and expanded
again by it in float32; numpy's own reading of the layouts has to agree in every
bit. Packed zero points, which that version writes but does not read, are unpacked
by its unpack_from_int32(). The configuration is what its QuantizationConfig
writes.
"""
import json
import pathlib
import sys

import numpy as np
import torch
from compressed_tensors.compressors.quantized_compressors.naive_quantized import IntQuantizationCompressor
from compressed_tensors.compressors.quantized_compressors.pack_quantized import (
    PackedQuantizationCompressor, unpack_from_int32)
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme, QuantizationStatus
from compressed_tensors.quantization.lifecycle.forward import dequantize

HERE = pathlib.Path(__file__).parent
sys.path.append(str(HERE.parent))
from golden_arrays import Arrays
from packed_checkpoint import make

# As make() says; scales: their dtype.
CASES = {
    "ct_w8a8": dict(format="int-quantized", bits=8, scales="bfloat16", keep=["self_attn.v_proj"], zero_bias=True),
    "ct_w8a8_float": dict(format="int-quantized", bits=8, scales="float32", lm_head=True),
    "ct_w8_tensor": dict(format="int-quantized", bits=8, strategy="tensor", scales="float32"),
    "ct_w8a8_asym": dict(format="int-quantized", bits=8, sym=False, scales="float16"),
    "ct_w4a16_64": dict(format="pack-quantized", bits=4, group_size=64, scales="bfloat16", activations=False),
    "ct_w4a16_asym": dict(format="pack-quantized", bits=4, group_size=32, sym=False, scales="float16", activations=False),
    "ct_w4a16_row": dict(format="pack-quantized", bits=4, scales="float16", activations=False),
    "ct_w8a16_row": dict(format="pack-quantized", bits=8, scales="bfloat16", activations=False),
    "ct_act_order": dict(format="pack-quantized", bits=4, group_size=32, scales="float16", activations=False, order=True),
}  # fmt: skip
COMPRESSORS = {"int-quantized": IntQuantizationCompressor(), "pack-quantized": PackedQuantizationCompressor()}


def weight_args(case):
    strategy = "group" if "group_size" in case else case.get("strategy", "channel")
    return QuantizationArgs(
        num_bits=case["bits"], symmetric=case.get("sym", True), strategy=strategy,
        group_size=case.get("group_size"), actorder="group" if case.get("order") else None)  # fmt: skip


def ranges(weights, groups, case):
    """Scales and zero points (signed) [out, groups], from the extremes."""
    count, half = groups.max() + 1, 2 ** (case["bits"] - 1)
    scales, zeros = np.zeros((len(weights), count)), np.zeros((len(weights), count))
    for g in range(count):
        part = weights[:, groups == g]
        if case.get("sym", True):
            scales[:, g] = np.abs(part).max(1) / (half - 0.5)
        else:
            low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
            scales[:, g] = (high - low) / (2 * half - 1)
            zeros[:, g] = np.clip(np.round(-half - low / scales[:, g]), -half, half - 1)
    if case.get("strategy") == "tensor":
        scales = scales.max(0, keepdims=True)[0]
        zeros = zeros[0]
    return torch.tensor(scales).to(getattr(torch, case["scales"])), torch.tensor(zeros).to(torch.int8)


def expand_by_numpy(tensors, groups, case, shape):
    if case["format"] == "int-quantized":
        numbers = tensors["weight"].numpy().astype(np.int64)
        zeros = tensors["weight_zero_point"].numpy().astype(np.int64) if "weight_zero_point" in tensors else 0
    else:
        bits, half = case["bits"], 2 ** (case["bits"] - 1)
        shifts = np.arange(0, 32, bits, dtype=np.uint32)

        def unpack(words):  # along the last dimension
            return ((words.view(np.uint32)[..., None] >> shifts & (2 * half - 1)).astype(np.int64) - half).reshape(len(words), -1)

        numbers = unpack(tensors["weight_packed"].numpy())[:, : shape[1]]
        zeros = unpack(tensors["weight_zero_point"].numpy().T.copy())[:, : shape[0]].T if "weight_zero_point" in tensors else 0
    scales = tensors["weight_scale"].float().numpy()
    if scales.ndim == 1:
        return scales[0] * numbers.astype(np.float32)
    if not np.isscalar(zeros):
        zeros = zeros[:, groups]
    return scales[:, groups] * (numbers - zeros).astype(np.float32)


def expand_by_library(tensors, case, shape):
    args = weight_args(case)
    data = {**tensors, "weight_scale": tensors["weight_scale"].float()}
    if case["format"] == "pack-quantized" and "weight_zero_point" in tensors:
        numbers = unpack_from_int32(data["weight_packed"], args.num_bits, torch.Size(shape))
        zeros = unpack_from_int32(
            data["weight_zero_point"], args.num_bits, torch.Size((shape[0], data["weight_scale"].shape[-1])), packed_dim=0)
        return dequantize(x_q=numbers, scale=data["weight_scale"], zero_point=zeros).numpy()
    return COMPRESSORS[case["format"]].decompress_weight(data, args).numpy()


def pack(weights, case, rng):
    """The tensors of a checkpoint, and the weights that they stand for."""
    inputs = weights.shape[1]
    groups = (np.arange(inputs) // case.get("group_size", inputs)).astype(np.int32)
    if case.get("order"):
        groups = groups[np.argsort(rng.permutation(inputs))]
    scales, zeros = ranges(weights, groups, case)
    asymmetric = not case.get("sym", True)
    g_idx = torch.tensor(groups) if case.get("order") else None
    tensors = COMPRESSORS[case["format"]].compress_weight(
        weight=torch.tensor(weights, dtype=torch.float32), scale=scales.float(), zero_point=zeros,
        quantization_args=weight_args(case), g_idx=g_idx)  # fmt: skip
    tensors["weight_scale"] = scales
    if asymmetric and "weight_zero_point" not in tensors:
        tensors["weight_zero_point"] = zeros
    if g_idx is not None:
        tensors["weight_g_idx"] = g_idx
    expanded = expand_by_library(tensors, case, weights.shape)
    assert np.array_equal(expanded, expand_by_numpy(tensors, groups, case, weights.shape))
    assert np.abs(expanded - weights).max() < 1.01 * scales.float().max()
    return {k: v.contiguous() for k, v in tensors.items()}, np.ascontiguousarray(expanded, np.float32)


def quantization_config(case):
    activations = QuantizationArgs(num_bits=8, dynamic=True, strategy="token") if case.get("activations", True) else None
    keep = [f"model.layers.0.{matrix}" for matrix in case.get("keep", [])]
    return QuantizationConfig(
        config_groups={"group_0": QuantizationScheme(
            targets=["Linear"], weights=weight_args(case), input_activations=activations)},
        format=case["format"], quantization_status=QuantizationStatus.COMPRESSED,
        ignore=keep + ([] if case.get("lm_head") else ["lm_head"])).model_dump(mode="json")  # fmt: skip


def main():
    torch.set_num_threads(1)
    arrays = Arrays()
    cases = [make(name, case, arrays, np.random.default_rng(seed), pack, quantization_config(case))
             for seed, (name, case) in enumerate(CASES.items())]  # fmt: skip
    (HERE / "compressed_goldens.json").write_text(json.dumps({"rows": [0, 13, -1], "cases": cases}, separators=(",", ":")))
    (HERE / "compressed_goldens.bin").write_bytes(b"".join(arrays.data))


if __name__ == "__main__":
    main()
