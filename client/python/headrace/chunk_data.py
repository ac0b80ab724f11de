"""The data of a chunk, whatever was done to it on its way."""
from __future__ import annotations

from typing import Union

import grpc

from headrace.errors import DataLossError
from headrace.v1 import activations_pb2

Buffer = Union[bytes, memoryview]

_VALUE_BYTES = {activations_pb2.WIRE_DTYPE_F32: 4, activations_pb2.WIRE_DTYPE_BF16: 2,
                activations_pb2.WIRE_DTYPE_F16: 2, activations_pb2.WIRE_DTYPE_INT8: 1}


def uncompressed(chunk: activations_pb2.ActivationChunk, data: Buffer) -> Buffer:
    """The data before compression; no more is made of it than the rows take."""
    if chunk.compression != activations_pb2.COMPRESSION_ZSTD:
        return data
    try:
        import zstandard
    except ImportError:
        raise ImportError("compressed rows need the package zstandard: pip install zstandard") from None
    size = chunk.row_count * chunk.width * _VALUE_BYTES[chunk.dtype]
    try:
        made: bytes = zstandard.ZstdDecompressor().decompress(data, max_output_size=size)
        return made
    except zstandard.ZstdError as error:
        raise DataLossError(f"chunk {chunk.sequence_number}: {error}", grpc.StatusCode.DATA_LOSS) from None
