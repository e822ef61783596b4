import numpy as np
from numpy.typing import NDArray

__all__ = ["walk_to_item"]

def walk_to_item(
    data: NDArray[np.uint8], hash_slot_num: int, index_num: int, ordinal: int, max_steps: int
) -> tuple[bool, int]: ...
