"""Arrays of golden numbers: float32 in a .bin; a .json says where each begins."""
import numpy as np


class Arrays:
    def __init__(self):
        self.data = []
        self.offset = 0

    def add(self, array):
        array = np.ascontiguousarray(array, np.float32)
        where = {"offset": self.offset, "shape": list(array.shape)}
        self.data.append(array.tobytes())
        self.offset += array.size
        return where
