"""Interventions: changing rows while the model computes them.

    add("resid_post", direction, layers=[12], coefficient=4.0)
    generate("Once upon", interventions=[add(...), zero("z", layers=[3])])
    replace("resid_post", rows_from(handle), layers=[3])

Each function gives one for the `interventions` option of generate() and
run_with_cache(). Rows are all of the prompt and of what is generated, unless a
headrace.rows() says which. A vector is an array, or the name that
Client.put_vector() gave it.
"""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from headrace.selection import Layers, RowSelector
from headrace.selection import hook as select_hook
from headrace.selection import rows as select_rows
from headrace.v1 import interventions_pb2

Intervention = interventions_pb2.Intervention
RowsFrom = interventions_pb2.RowsFrom


def add(hook: str, vector: Any, *, coefficient: float = 1.0, layers: Layers = "all",
        rows: Optional[RowSelector] = None) -> Intervention:
    """row += coefficient * vector"""
    return _at(hook, layers, rows, add=interventions_pb2.AddVector(vector=to_vector(vector), coefficient=coefficient))


def scale(hook: str, factor: float, *, layers: Layers = "all",
          rows: Optional[RowSelector] = None) -> Intervention:
    """row *= factor"""
    return _at(hook, layers, rows, scale=interventions_pb2.ScaleRow(factor=factor))


def project_out(hook: str, vector: Any, *, strength: float = 1.0, layers: Layers = "all",
                rows: Optional[RowSelector] = None) -> Intervention:
    """row -= strength * (row . v / |v|^2) * v"""
    return _at(hook, layers, rows,
               project_out=interventions_pb2.ProjectOut(vector=to_vector(vector), strength=strength))


def cap(hook: str, vector: Any, limit: float, *, layers: Layers = "all",
        rows: Optional[RowSelector] = None) -> Intervention:
    """Where row . v / |v| is above the limit, takes the part beyond away."""
    return _at(hook, layers, rows, cap=interventions_pb2.CapProjection(vector=to_vector(vector), limit=limit))


def replace(hook: str, source: Any, *, layers: Layers = "all",
            rows: Optional[RowSelector] = None) -> Intervention:
    """row = source: a vector, or the rows of rows_from()

    Of rows without a position of their own to come from, those of the prompt
    are an error, and generated ones stay what they are.
    """
    if isinstance(source, RowsFrom):
        return _at(hook, layers, rows, replace=interventions_pb2.ReplaceRow(rows=source))
    return _at(hook, layers, rows, replace=interventions_pb2.ReplaceRow(vector=to_vector(source)))


def rows_from(handle: str, *, hook: Optional[str] = None, layer: Optional[int] = None, offset: int = 0) -> RowsFrom:
    """Rows that an earlier call kept on the server: capture(…, keep=KeepRows()).

    They were taken at `hook` and `layer`, which are those of the intervention
    when they are None; position p is replaced by what was kept at p + offset.
    """
    source = None if hook is None else select_hook(hook).hook
    return RowsFrom(handle=handle, hook=source, layer=layer, position_offset=offset)


def zero(hook: str, *, layers: Layers = "all", rows: Optional[RowSelector] = None) -> Intervention:
    """row = 0"""
    return _at(hook, layers, rows, zero=interventions_pb2.ZeroRow())


def to_vector(values: Any) -> interventions_pb2.Vector:
    if isinstance(values, str):
        return interventions_pb2.Vector(sha256=values)
    given = np.asarray(values)
    if given.dtype.kind in "cOSUMm":
        raise TypeError(f"a vector holds real numbers; this one holds {given.dtype}")
    array = np.ascontiguousarray(given, "<f4")
    if array.ndim != 1:
        raise ValueError(f"a vector has one dimension; this has shape {array.shape}")
    return interventions_pb2.Vector(f32=array.tobytes())


def _at(hook: str, layers: Layers, rows: Optional[RowSelector], **op: Any) -> Intervention:
    if rows is None:
        rows = select_rows(prompt="all", generated="all")
    return Intervention(where=select_hook(hook, layers=layers), rows=rows, **op)
