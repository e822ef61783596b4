"""Verification of compressed bodies: whether a consumer can decompress them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rocketstore.disk.file_run_reader import Window
from rocketstore.errors import CorruptFileError
from rocketstore.kernels.commit_log import read_message
from rocketstore.messages.compression import OversizedBodyError, decompress

BAD, NOT_CHECKED = "log-body-compression", "not-checked"


def bad_bodies(window: Window, phy_offsets: Iterable[int]) -> Iterator[tuple[str, int, str, int]]:
    """Yield the bodies that do not decompress: kind of finding, physical offset in bytes, detail, and 1.

    A body that is larger than rocketstore decompresses is left out: a consumer reads it.

    Parameters: phy_offsets: of sound records whose bodies begin as no codec writes them, within the window.
    Source: MessageDecoder.decode, which gives up at a bad body, so that decodesBatch ends there.
    """
    for offset in phy_offsets:
        fields = read_message(*window, offset)[1]
        if fields is None:  # the record says that it is elsewhere, which is another finding
            continue
        try:
            decompress(fields["raw_body"], fields["sys_flag"], offset)
        except OversizedBodyError:
            continue
        except CorruptFileError as error:
            yield BAD, offset, f"{error.field}: {error.reason}", 1
        except ImportError as error:
            yield NOT_CHECKED, offset, f"a compressed body: {error}", 1
