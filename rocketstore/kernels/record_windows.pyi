from collections.abc import Sequence
from typing import Self, final

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.buffer import Buffer

@final
class Windows:
    def __new__(cls, windows: Sequence[tuple[Buffer, int]], window_of: NDArray[np.int32]) -> Self: ...
