import numpy as np
from numpy.typing import NDArray

def take_values(
    offsets: NDArray[np.int32], data: NDArray[np.uint8], rows: NDArray[np.int64]
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]: ...
