"""Which rows of which hooks: selectors from Python's own values.

    rows(prompt="last")                      # one row
    rows(prompt=range(8, 64, 2), generated="all", exclude_tokens=[0])
    capture(["resid_post", "attn_out"], layers=[-1])
    capture([hook("attn_probs", layers=[3], heads=[0, 5], top_keys=8)], rows=rows(prompt="last"))

Positions are absolute over prompt and generated; negative ones count from the
end of the prompt.
"""
from __future__ import annotations

from typing import Iterable, Mapping, Optional, Sequence, TypeVar, Union

from headrace.v1 import activations_pb2, derived_pb2, selection_pb2

Layers = Union[str, Sequence[int]]
HookSelector = selection_pb2.HookSelector
Hooks = Sequence[Union[str, HookSelector]]
RowSelector = selection_pb2.RowSelector
CaptureSpec = activations_pb2.CaptureSpec
KeepRows = activations_pb2.KeepRows
Rows = Union[str, range, Iterable[int], None]

DTYPES = {"f32": activations_pb2.WIRE_DTYPE_F32, "bf16": activations_pb2.WIRE_DTYPE_BF16,
          "f16": activations_pb2.WIRE_DTYPE_F16, "int8": activations_pb2.WIRE_DTYPE_INT8}

POLICIES = {"pause_sequence": activations_pb2.SLOW_READER_POLICY_PAUSE_SEQUENCE,
            "drop_with_gaps": activations_pb2.SLOW_READER_POLICY_DROP_WITH_GAPS,
            "cancel": activations_pb2.SLOW_READER_POLICY_CANCEL}
CACHED_ROWS = {"recompute": activations_pb2.CACHED_ROWS_RECOMPUTE, "leave_out": activations_pb2.CACHED_ROWS_LEAVE_OUT}
COMPRESSIONS = {"none": activations_pb2.COMPRESSION_NONE, "zstd": activations_pb2.COMPRESSION_ZSTD}
T = TypeVar("T")


def dtype_name(dtype: int) -> str:
    return next((name for name, value in DTYPES.items() if value == dtype), "f32")


def rows(prompt: Rows = None, generated: Rows = None, *, exclude_positions: Iterable[int] = (),
         exclude_tokens: Iterable[int] = (), feed_last_token: bool = False) -> RowSelector:
    """Rows by phase: "all", "last" (of the prompt), a range or positions."""
    selector = RowSelector(exclude_positions=exclude_positions, exclude_token_ids=exclude_tokens,
                           feed_last_token=feed_last_token)
    if prompt is not None:
        selector.prompt.CopyFrom(_phase("prompt", prompt))
    if generated is not None:
        selector.generated.CopyFrom(_phase("generated", generated))
    return selector


def hook(name: str, *, layers: Layers = "all", heads: Sequence[int] = (), top_keys: int = 0) -> HookSelector:
    """A hook by headrace's name, where layers or heads are its own.

    `heads` are those of "attn_scores" and "attn_probs", which have one row of
    keys for each; with `top_keys`, only the so many largest values of a row.
    """
    value = "HOOK_POINT_" + name.upper()
    if value not in selection_pb2.HookPoint.keys():
        raise ValueError(f"there is no hook {name!r}")
    chosen = HookSelector(hook=value, heads=heads, top_keys=top_keys)
    set_layers(chosen, layers)
    return chosen


def hook_name(value: int) -> str:
    """headrace's name of a hook."""
    return selection_pb2.HookPoint.Name(value).removeprefix("HOOK_POINT_").lower()


def set_layers(chosen: HookSelector, layers: Layers) -> None:
    """Leaves "all" unset: it is what no layer means, with and without layers."""
    if not isinstance(layers, str):
        chosen.layers.extend(layers)
    elif layers != "all":
        raise ValueError(f"layers is {layers!r}; it is 'all' or a sequence of numbers")


def capture(hooks: Hooks = (), *, layers: Layers = "all", rows: Optional[RowSelector] = None, dtype: str = "f32",
            checks: bool = False, before_interventions: bool = False, derived: Iterable[derived_pb2.DerivedSpec] = (),
            keep: Optional[KeepRows] = None, policy: str = "pause_sequence", cached_rows: str = "recompute",
            compression: str = "none", chunk_bytes: int = 0) -> CaptureSpec:
    """For the `capture` option of generate() and forward().

    Hooks by headrace's names, or as hook() gives them; `layers` are those of
    every hook given by name that has some. `rows`: every prompt row when it is
    None. `derived`: what headrace.derived makes. `keep`: KeepRows(time_to_live=
    seconds, send=…) leaves the rows on the server, for interventions.rows_from();
    End.kept.handle names them. `policy`, "pause_sequence", "drop_with_gaps" or
    "cancel", is for a reader that is slow; `cached_rows`, "recompute" or
    "leave_out", for what the prefix cache has; `compression` is "none" or
    "zstd"; `chunk_bytes` is the server's to choose when it is 0.
    """
    if isinstance(hooks, str):
        raise TypeError(f"hooks is a string, {hooks!r}; it takes a sequence of names")
    selectors = [hook(name, layers="all" if name in _WITHOUT_LAYER else layers) if isinstance(name, str) else name
                 for name in hooks]
    spec = make_capture(selectors, rows, dtype, checks)
    spec.before_interventions = before_interventions
    spec.derived.extend(derived)
    if keep is not None:
        spec.keep.CopyFrom(keep)
    spec.policy = _choice("policy", policy, POLICIES)
    spec.cached_rows = _choice("cached_rows", cached_rows, CACHED_ROWS)
    spec.compression = _choice("compression", compression, COMPRESSIONS)
    spec.chunk_bytes = chunk_bytes
    return spec


def make_capture(selectors: Iterable[HookSelector], rows: Optional[RowSelector], dtype: str,
                 checks: bool = False) -> CaptureSpec:
    return CaptureSpec(hooks=selectors, rows=prompt_rows() if rows is None else rows,
                       dtype=_choice("dtype", dtype, DTYPES), checks=checks)


def _choice(what: str, name: str, known: Mapping[str, T]) -> T:
    if name not in known:
        raise ValueError(f"{what} is {name!r}; it is one of {', '.join(known)}")
    return known[name]


def prompt_rows() -> RowSelector:
    return rows(prompt="all")


# They take no layer; the others' layers must not be sent with them.
_WITHOUT_LAYER = {"embed", "position_write", "final_norm_scale", "final_norm_out", "logits"}


def _phase(name: str, chosen: Union[str, range, Iterable[int]]) -> selection_pb2.PhaseRows:
    if isinstance(chosen, str):
        if chosen == "all":
            return selection_pb2.PhaseRows(all=True)
        if chosen == "last":
            return selection_pb2.PhaseRows(last=True)
        raise ValueError(f"{name} is {chosen!r}; it is 'all', 'last', a range or positions")
    if isinstance(chosen, range) and chosen.step > 0 and 0 <= chosen.start < chosen.stop:
        window = selection_pb2.PositionWindow(begin=chosen.start, end=chosen.stop, stride=chosen.step)
        return selection_pb2.PhaseRows(windows=[window])
    return selection_pb2.PhaseRows(positions=chosen)
