"""Arrays as torch tensors, where torch is installed."""
from __future__ import annotations

from typing import Any

import numpy as np

from headrace.arrays import Array


def to_tensor(array: Array, device: Any = None) -> Any:
    """Shares the array's memory, unless `device` is another one."""
    try:
        import torch
    except ImportError:
        raise ImportError("to_torch() needs the package torch: pip install torch") from None
    if array.dtype.name == "bfloat16":  # numpy's own types do not have it
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    return tensor if device is None else tensor.to(device)
