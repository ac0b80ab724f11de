"""Rows as they travel, to numpy. Widening is exact."""
from __future__ import annotations

from typing import Any

import numpy as np

from headrace.arrays import Array
from headrace.v1 import activations_pb2

Chunk = activations_pb2.ActivationChunk


def native_dtype(dtype: int) -> Any:
    """numpy's type of what travelled; bfloat16 is that of ml_dtypes."""
    if dtype == activations_pb2.WIRE_DTYPE_F16:
        return np.dtype(np.float16)
    if dtype == activations_pb2.WIRE_DTYPE_BF16:
        return bfloat16()
    return np.dtype(np.float32)  # INT8 has a scale per row, and outliers


def bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError("bfloat16 arrays need the package ml_dtypes: pip install ml_dtypes; "
                          "without native=True, bf16 rows are widened to float32 exactly") from None
    return np.dtype(ml_dtypes.bfloat16)


def copy_rows(chunk: Chunk, target: Array) -> None:
    """Writes the rows of a chunk into `target` [row_count, width], float32 or
    what native_dtype() says, in one pass over the bytes."""
    shape = (chunk.row_count, chunk.width)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_F32:
        target[...] = np.frombuffer(chunk.data, "<f4").reshape(shape)
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_F16:
        target[...] = np.frombuffer(chunk.data, "<f2").reshape(shape)
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_BF16:
        bits = np.frombuffer(chunk.data, "<u2").reshape(shape)
        if target.dtype == np.float32:
            np.left_shift(bits, 16, out=target.view(np.uint32), dtype=np.uint32)
        else:
            target.view(np.uint16)[...] = bits
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_INT8:
        target[...] = np.frombuffer(chunk.data, np.int8).reshape(shape)
        target *= np.array(chunk.scales, np.float32)[:, None]
        target[list(chunk.outlier_rows), list(chunk.outlier_dimensions)] = chunk.outlier_values
    else:
        raise ValueError(f"this client does not read dtype {chunk.dtype} of activations")
