from typing import Self

import numpy as np
from numpy.typing import NDArray

from rocketstore.kernels.keys import _Strings

class IndexItems:
    def __new__(cls, n: int) -> Self: ...
    @property
    def key_hashes(self) -> NDArray[np.int32]: ...
    @property
    def rows(self) -> NDArray[np.int64]: ...

def index_items(
    topic: _Strings,
    uniq_key: _Strings | None,
    keys: _Strings | None,
    tags: _Strings | None,
    phy_offsets: NDArray[np.int64],
    sys_flags: NDArray[np.int32],
    end_phy_offset: int,
    indexes_tags: bool,
    key_bounds: NDArray[np.int32] | None = None,
) -> IndexItems: ...
