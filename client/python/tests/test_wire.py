"""Rows read where they arrived, against protobuf's own parsing."""
import numpy as np
import pytest

from headrace.v1 import activations_pb2, generation_pb2
from headrace.wire import Rows, RowsReader, copy_rows

READ = RowsReader(generation_pb2.ForwardResponse)


def chunk_of(values, dtype, **fields):
    return activations_pb2.ActivationChunk(
        hook=activations_pb2.HOOK_POINT_Z, layer=300, dtype=dtype, row_count=values.shape[0], width=values.shape[1],
        positions=range(len(values)), token_ids=range(70000, 70000 + len(values)), data=values.tobytes(),
        crc32c=0xFFFFFFFF, sequence_number=2**40, max_abs_error=0.5, **fields)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_chunk_is_what_protobuf_reads_but_for_its_data(rows):
    values = np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)
    chunk = chunk_of(values, activations_pb2.WIRE_DTYPE_F32, choice=3)
    read = READ(generation_pb2.ForwardResponse(activations=chunk).SerializeToString())

    assert isinstance(read, Rows) and bytes(read.data) == chunk.data
    chunk.ClearField("data")
    assert read.chunk == chunk
    target = np.full((rows, 2, 3), 9, np.float32)
    copy_rows(read, target[:, 1])  # into rows that do not follow each other
    np.testing.assert_array_equal(target[:, 1], values)
    assert (target[:, 0] == 9).all()


def test_other_events_and_unknown_fields_are_left_to_protobuf():
    for response in (generation_pb2.ForwardResponse(header=generation_pb2.Header(model="a")),
                     generation_pb2.ForwardResponse(end=generation_pb2.End()), generation_pb2.ForwardResponse()):
        assert READ(response.SerializeToString()) == response
    values = np.ones((1, 2), np.float32)
    later = chunk_of(values, activations_pb2.WIRE_DTYPE_F32).SerializeToString()
    # Fields of a later server, one of each kind: varint, 64 bits, bytes, 32 bits.
    unknown = b"\x98\x06\x80\x01" + b"\x99\x06" + bytes(8) + b"\x9a\x06\x02ab" + b"\x9d\x06" + bytes(4)
    inside = unknown + later + unknown
    message = unknown + b"\x1a" + bytes([len(inside) & 0x7F | 0x80, len(inside) >> 7]) + inside
    assert bytes(READ(message).data) == values.tobytes()


@pytest.mark.parametrize("offset", [0, 1, 3])
@pytest.mark.parametrize("dtype, kind", [(activations_pb2.WIRE_DTYPE_F32, "<f4"), (activations_pb2.WIRE_DTYPE_F16, "<f2"),
                                         (activations_pb2.WIRE_DTYPE_BF16, "<u2")])
def test_rows_may_lie_at_any_address(dtype, kind, offset):
    wire = np.arange(12).reshape(3, 4).astype(kind)
    data = memoryview(bytes(offset) + wire.tobytes())[offset:]
    target = np.empty((3, 4), np.float32)
    copy_rows(Rows(chunk_of(wire, dtype), data), target)
    expected = (wire.astype(np.uint32) << 16).view(np.float32) if kind == "<u2" else wire.astype(np.float32)
    np.testing.assert_array_equal(target, expected)
