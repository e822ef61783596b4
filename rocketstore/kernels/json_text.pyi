import numpy as np
from numpy.typing import NDArray

__all__ = ["MOST_LEVELS", "find_json"]

MOST_LEVELS: int

def find_json(offsets: NDArray[np.int32], data: NDArray[np.uint8]) -> NDArray[np.bool_]: ...
