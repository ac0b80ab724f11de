"""Names of hooks: headrace's ("resid_post") and TransformerLens's."""
from __future__ import annotations

from typing import Dict, FrozenSet, Iterable, List, Tuple

from headrace.selection import HookSelector, Hooks, Layers, set_layers
from headrace.v1 import interventions_pb2, models_pb2


class HookNames:
    """The hooks of one model, by name, as its server lists them."""

    def __init__(self, hooks: Iterable[models_pb2.HookPointInfo]) -> None:
        self._by_name: Dict[str, models_pb2.HookPointInfo] = {h.name: h for h in hooks}
        self._by_hook: Dict[int, models_pb2.HookPointInfo] = {h.hook: h for h in self._by_name.values()}

    def __getitem__(self, name: str) -> models_pb2.HookPointInfo:
        """By headrace's name, or TransformerLens's without its layer: "hook_resid_post"."""
        for info in self._by_name.values():
            if name == info.name or (name and name == info.transformer_lens.replace("blocks.{l}.", "")):
                return info
        known = ", ".join(n for n, h in self._by_name.items() if h.capturable)
        raise ValueError(f"hooks: there is no hook {name!r}; capturable here: {known}")

    @property
    def num_layers(self) -> int:
        return max((info.layer_count for info in self._by_name.values()), default=0)

    def key(self, hook: int, layer: int) -> str:
        """The name of an array: TransformerLens's where it has one."""
        info = self._by_hook[hook]
        name = info.transformer_lens or (f"blocks.{{l}}.{info.name}" if info.layer_count else info.name)
        return name.replace("{l}", str(layer))

    def steered(self, interventions: Iterable[interventions_pb2.Intervention]) -> FrozenSet[str]:
        """Arrays of the residual stream that are changed where nothing of the model writes."""
        names = []
        for change in interventions:
            info = self._by_hook.get(change.where.hook)
            if info is not None and info.name.startswith("resid_"):
                names += [self.key(info.hook, layer) for layer in _chosen_layers(change.where, info.layer_count)]
        return frozenset(names)

    def selectors(self, hooks: Hooks, layers: Layers) -> List[HookSelector]:
        selectors = []
        if isinstance(hooks, str):
            raise TypeError(f"hooks is a string, {hooks!r}; it takes a sequence of names")
        for hook in hooks:
            if not isinstance(hook, str):
                selectors.append(hook)
                continue
            info = self[hook]
            selector = HookSelector(hook=info.hook)
            if info.layer_count:
                set_layers(selector, layers)
            selector.heads.extend(range(info.head_count))  # attention's scores and patterns: all heads
            selectors.append(selector)
        return selectors


def _chosen_layers(selector: HookSelector, count: int) -> List[int]:
    chosen = list(selector.layers)
    for window in selector.ranges:
        from_the_end = window.end < 0 or (window.end == 0 and window.begin < 0)
        begin = window.begin + count if window.begin < 0 else window.begin
        chosen += range(begin, window.end + count if from_the_end else window.end)
    return [layer % count for layer in chosen] if chosen else list(range(count))


IDENTITIES: Tuple[Tuple[str, str, str], ...] = (
    ("hook_resid_pre", "hook_attn_out", "hook_resid_mid"),
    ("hook_resid_mid", "hook_mlp_out", "hook_resid_post"),
)
