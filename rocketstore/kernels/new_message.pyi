from collections.abc import Sequence
from typing import Any

def make_properties(
    properties: dict[str, str],
    keys: Sequence[str],
    tags: str | None,
    uniq_key: str | None,
    delay: str | None,
) -> dict[str, str]: ...
def take_calls(new_type: type[Any]) -> None: ...
