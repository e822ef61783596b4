from typing import Any, Self

import numpy as np

class RowError(Exception):
    row: int
    reason: str
    error: type[Exception]
    def __init__(self, row: int, reason: str, error: type[Exception] = ...) -> None: ...

class TextChunk: ...

class ObjectChunk(TextChunk):
    def __new__(cls, values: list[Any]) -> Self: ...

class FixedWidthChunk(TextChunk):
    def __new__(cls, array: np.ndarray) -> Self: ...

def join_surrogates(text: str) -> str: ...
def java_bytes(text: str) -> bytes: ...
