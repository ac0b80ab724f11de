"""Rows as they travel, to numpy. Widening is exact."""
from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Generic, Optional, Tuple, Type, TypeVar, Union

import numpy as np
from google.protobuf.message import Message

from headrace.arrays import Array
from headrace.chunk_data import uncompressed
from headrace.v1 import activations_pb2

Chunk = activations_pb2.ActivationChunk
Response = TypeVar("Response", bound=Message)

_DATA = Chunk.DESCRIPTOR.fields_by_name["data"].number
assert sys.byteorder == "little"  # as rows travel


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


@dataclass(frozen=True)
class Rows:
    """A chunk whose `data` was left where it arrived."""

    chunk: Chunk
    data: memoryview


class RowsReader(Generic[Response]):
    """Reads a stream's responses: chunks of activations as Rows, without the two
    copies of their data that parsing and reading a bytes field make, and
    everything else as it is."""

    def __init__(self, response: Type[Response]) -> None:
        self._response = response
        self._activations = response.DESCRIPTOR.fields_by_name["activations"].number

    def __call__(self, message: bytes) -> Union[Rows, Response]:
        chunk = _find(message, 0, len(message), self._activations)
        if chunk is None:
            return self._response.FromString(message)
        data = _find(message, chunk[1], chunk[2], _DATA)
        if data is None:
            return Rows(Chunk.FromString(message[chunk[1]:chunk[2]]), memoryview(b""))
        rest = message[chunk[1]:data[0]] + message[data[2]:chunk[2]]
        return Rows(Chunk.FromString(rest), memoryview(message)[data[1]:data[2]])


def _find(message: bytes, begin: int, end: int, number: int) -> Optional[Tuple[int, int, int]]:
    """Where field `number`, of a type with a length, begins, and where its value
    begins and ends. (protobuf.dev/programming-guides/encoding)"""
    at = begin
    while at < end:
        start = at
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(message, at)
        elif kind == 2:
            length, at = _varint(message, at)
            if tag >> 3 == number:
                return start, at, at + length
            at += length
        else:
            at += 8 if kind == 1 else 4
    return None


def _varint(message: bytes, at: int) -> Tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def copy_rows(rows: Rows, target: Array) -> None:
    """Writes the rows of a chunk into `target` [row_count, width], float32 or
    what native_dtype() says, in one pass over the bytes."""
    chunk, data = rows.chunk, uncompressed(rows.chunk, rows.data)
    shape = (chunk.row_count, chunk.width)
    if chunk.dtype == activations_pb2.WIRE_DTYPE_F32:
        # As bytes: numbers may lie at any address.
        target.view(np.uint8)[...] = np.frombuffer(data, np.uint8).reshape(chunk.row_count, 4 * chunk.width)
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_F16:
        target[...] = np.frombuffer(data, "<f2").reshape(shape)
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_BF16:
        bits = np.frombuffer(data, "<u2").reshape(shape)
        if target.dtype == np.float32:
            np.left_shift(bits, 16, out=target.view(np.uint32), dtype=np.uint32)
        else:
            target.view(np.uint16)[...] = bits
    elif chunk.dtype == activations_pb2.WIRE_DTYPE_INT8:
        target[...] = np.frombuffer(data, np.int8).reshape(shape)
        target *= np.array(chunk.scales, np.float32)[:, None]
        target[list(chunk.outlier_rows), list(chunk.outlier_dimensions)] = chunk.outlier_values
    else:
        raise ValueError(f"this client does not read dtype {chunk.dtype} of activations")
