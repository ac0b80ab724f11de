"""Chunks of attention's rows, and compressed ones."""
import numpy as np
import pytest

import headrace
from headrace.attention_rows import AttentionRows
from headrace.chunk_data import uncompressed
from headrace.v1 import activations_pb2 as pb
from headrace.wire import Rows


def chunk(head, rows, *, hook=pb.HOOK_POINT_ATTN_PROBS, starts=None, counts, keys=()):
    data = np.array(rows, "<f4")
    return Rows(pb.ActivationChunk(hook=hook, layer=3, head=head, dtype=pb.WIRE_DTYPE_F32, row_count=len(data),
                                   width=data.shape[1], key_starts=starts or [0] * len(data),
                                   key_counts=counts, key_positions=keys), memoryview(data.tobytes()))


def test_rows_of_growing_width_are_one_array():
    rows = AttentionRows()
    rows.add(chunk(4, [[1, 0], [0.25, 0.75]], counts=[1, 2]))
    rows.add(chunk(4, [[0.5, 0.25, 0.25, 0]], counts=[3]))
    rows.add(chunk(1, [[1, 0], [0.5, 0.5]], counts=[1, 2]))
    rows.add(chunk(1, [[0.5, 0.5, 0, 0]], starts=[1], counts=[2]))

    assert rows.heads == [1, 4]
    assert rows.array().tolist() == [[[1, 0, 0], [0.5, 0.5, 0], [0, 0.5, 0.5]],
                                     [[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.25, 0.25]]]


def test_scores_have_minus_infinity_where_nothing_is_seen():
    rows = AttentionRows()
    rows.add(chunk(0, [[2, 7], [3, 4]], hook=pb.HOOK_POINT_ATTN_SCORES, counts=[1, 2]))
    assert rows.array().tolist() == [[[2, -np.inf], [3, 4]]]


def test_top_keys_are_by_rank():
    rows = AttentionRows()
    rows.add(chunk(2, [[1, 0], [0.75, 0.25]], counts=[1, 2], keys=[0, 0, 5, 3]))
    assert rows.array().tolist() == [[[1, 0], [0.75, 0.25]]]
    assert rows.key_positions().tolist() == [[[0, -1], [5, 3]]]


def test_compressed_data_is_what_it_was():
    zstandard = pytest.importorskip("zstandard")
    data = np.zeros((3, 64), "<f4").tobytes()
    frame = zstandard.ZstdCompressor(level=1).compress(data)
    compressed = pb.ActivationChunk(dtype=pb.WIRE_DTYPE_F32, row_count=3, width=64, compression=pb.COMPRESSION_ZSTD)
    assert len(frame) < 100
    assert uncompressed(compressed, memoryview(frame)) == data
    with pytest.raises(headrace.DataLossError):
        uncompressed(compressed, b"no frame")
    assert uncompressed(pb.ActivationChunk(dtype=pb.WIRE_DTYPE_F32), b"1234") == b"1234"
