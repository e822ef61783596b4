from typing import Any

from typing_extensions import Buffer

BAD_REASONS: tuple[tuple[str, str], ...]

def decode_properties(data: bytes) -> dict[str, str]: ...
def check_message_and_return_size(
    data: Buffer,
    check_crc: bool = True,
    check_dup: bool = False,
    *,
    force_verify_prop_crc: bool = False,
    negative_blank: bool = False,
    message_delay_level: str = ...,
) -> tuple[bool, int, dict[str, Any] | None]: ...
