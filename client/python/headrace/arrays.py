"""Types of arrays."""
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]  # float32, where nothing else is said
Integers = npt.NDArray[np.int64]
