"""Which rows of which hooks: selectors from Python's own values.

    rows(prompt="last")                      # one row
    rows(prompt=range(8, 64, 2), generated="all", exclude_tokens=[0])
    capture(["resid_post", "attn_out"], layers=[-1])

Positions are absolute over prompt and generated; negative ones count from the
end of the prompt.
"""
from __future__ import annotations

from typing import Iterable, Optional, Sequence, Union

from headrace.v1 import activations_pb2, selection_pb2

Layers = Union[str, Sequence[int]]
RowSelector = selection_pb2.RowSelector
CaptureSpec = activations_pb2.CaptureSpec
Rows = Union[str, range, Iterable[int], None]

DTYPES = {"f32": activations_pb2.WIRE_DTYPE_F32, "bf16": activations_pb2.WIRE_DTYPE_BF16,
          "f16": activations_pb2.WIRE_DTYPE_F16, "int8": activations_pb2.WIRE_DTYPE_INT8}


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


def hook_selector(hook: str, layers: Layers) -> selection_pb2.HookSelector:
    """A hook by headrace's name, without asking the server."""
    name = "HOOK_POINT_" + hook.upper()
    if name not in selection_pb2.HookPoint.keys():
        raise ValueError(f"there is no hook {hook!r}")
    chosen = selection_pb2.HookSelector(hook=name)
    set_layers(chosen, layers)
    return chosen


def set_layers(chosen: selection_pb2.HookSelector, layers: Layers) -> None:
    """Leaves "all" unset: it is what no layer means, with and without layers."""
    if not isinstance(layers, str):
        chosen.layers.extend(layers)
    elif layers != "all":
        raise ValueError(f"layers is {layers!r}; it is 'all' or a sequence of numbers")


def capture(hooks: Sequence[str], *, layers: Layers = "all", rows: Optional[RowSelector] = None, dtype: str = "f32",
            checks: bool = False, before_interventions: bool = False) -> CaptureSpec:
    """For the `capture` option of generate() and forward().

    Hooks by headrace's names; `layers` are those of every hook that has some.
    `rows`: every prompt row when it is None.
    """
    if isinstance(hooks, str):
        raise TypeError(f"hooks is a string, {hooks!r}; it takes a sequence of names")
    selectors = [hook_selector(hook, "all" if hook in _WITHOUT_LAYER else layers) for hook in hooks]
    return make_capture(selectors, rows, dtype, checks, before_interventions)


def make_capture(selectors: Iterable[selection_pb2.HookSelector], rows: Optional[RowSelector], dtype: str,
                 checks: bool = False, before_interventions: bool = False) -> CaptureSpec:
    if dtype not in DTYPES:
        raise ValueError(f"dtype is {dtype!r}; it is one of {', '.join(DTYPES)}")
    return CaptureSpec(hooks=selectors, rows=prompt_rows() if rows is None else rows, dtype=DTYPES[dtype],
                       checks=checks, before_interventions=before_interventions)


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
