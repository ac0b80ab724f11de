"""Names of hooks: headrace's ("resid_post") and TransformerLens's."""
from __future__ import annotations

from typing import Dict, Iterable, List, Sequence, Tuple

from headrace.selection import Layers, set_layers
from headrace.v1 import models_pb2, selection_pb2


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

    def selectors(self, names: Sequence[str], layers: Layers) -> List[selection_pb2.HookSelector]:
        selectors = []
        if isinstance(names, str):
            raise TypeError(f"hooks is a string, {names!r}; it takes a sequence of names")
        for name in names:
            info = self[name]
            selector = selection_pb2.HookSelector(hook=info.hook)
            if info.layer_count:
                set_layers(selector, layers)
            selectors.append(selector)
        return selectors


IDENTITIES: Tuple[Tuple[str, str, str], ...] = (
    ("hook_resid_pre", "hook_attn_out", "hook_resid_mid"),
    ("hook_resid_mid", "hook_mlp_out", "hook_resid_post"),
)
