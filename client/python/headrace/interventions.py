"""Interventions: changing rows while the model computes them.

    add("resid_post", direction, layers=[12], coefficient=4.0)
    generate("Once upon", interventions=[add(...), zero("z", layers=[3])])

Each function gives one for the `interventions` option of generate() and
run_with_cache(). Rows are all of the prompt and of what is generated, unless a
headrace.rows() says which.
"""
from __future__ import annotations

from typing import Any, Optional

import numpy as np

from headrace.selection import Layers, RowSelector, hook_selector
from headrace.selection import rows as select_rows
from headrace.v1 import interventions_pb2

Intervention = interventions_pb2.Intervention


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


def replace(hook: str, vector: Any, *, layers: Layers = "all",
            rows: Optional[RowSelector] = None) -> Intervention:
    """row = vector"""
    return _at(hook, layers, rows, replace=interventions_pb2.ReplaceRow(vector=to_vector(vector)))


def zero(hook: str, *, layers: Layers = "all", rows: Optional[RowSelector] = None) -> Intervention:
    """row = 0"""
    return _at(hook, layers, rows, zero=interventions_pb2.ZeroRow())


def to_vector(values: Any) -> interventions_pb2.Vector:
    array = np.ascontiguousarray(values, "<f4")
    if array.ndim != 1:
        raise ValueError(f"a vector has one dimension; this has shape {array.shape}")
    return interventions_pb2.Vector(f32=array.tobytes())


def _at(hook: str, layers: Layers, rows: Optional[RowSelector], **op: Any) -> Intervention:
    if rows is None:
        rows = select_rows(prompt="all", generated="all")
    return Intervention(where=hook_selector(hook, layers), rows=rows, **op)
