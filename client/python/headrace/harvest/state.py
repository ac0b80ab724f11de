"""Where a harvest stands: a few numbers, whatever it has read."""
from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Dict, Mapping, Optional


@dataclass(frozen=True)
class HarvestState:
    """After some batch. The next one comes from the block whose first row is row
    `row` of prompt `prompt`, `batches` batches of it having been given out."""

    settings: Mapping[str, Any]  # what the rows and their order depend on
    block: int = 0
    prompt: int = 0
    row: int = 0
    batches: int = 0
    digest: Optional[str] = None  # of that prompt, once it was read

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "HarvestState":
        return cls(**json.loads(text))

    def after(self, batches: int) -> "HarvestState":
        return replace(self, batches=batches)

    def check_settings(self, settings: Dict[str, Any]) -> None:
        different = [f"{name} was {self.settings.get(name)!r} and is {value!r}"
                     for name, value in settings.items() if self.settings.get(name) != value]
        if different:
            raise ValueError("the state is of another harvest: " + "; ".join(different))

    def check_prompt(self, prompt: Any) -> None:
        if self.digest is not None and digest(prompt) != self.digest:
            raise ValueError(f"the state is of a harvest whose prompt {self.prompt} was another one: "
                             "resuming takes the same prompts in the same order")


def digest(value: Any) -> str:
    """Tells prompts apart; the same in every process."""
    if not isinstance(value, str):
        value = json.dumps([int(token) for token in value])
    return hashlib.sha256(value.encode()).hexdigest()[:16]
