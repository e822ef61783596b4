"""Bodies of messages, compressed and not."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any, TypeGuard

from rocketstore.errors import CorruptFileError
from rocketstore.extras import import_extra

MAX_BODY_SIZE = 64 << 20
MAX_FRAMES = 100  # a writer makes one
COMPRESSED, COMPRESSION_TYPE_SHIFT = 0x1, 8  # of sysFlag
COMPRESSION = COMPRESSED | 7 << COMPRESSION_TYPE_SHIFT
CODECS = {0: "zlib", 1: "lz4", 2: "zstd", 3: "zlib"}  # type 0: from before there were types
TYPES = {codec: number for number, codec in CODECS.items()}
LEVEL = 5
BodyError = CorruptFileError | ImportError  # a body that cannot be decoded, or not without a missing package
BODY_ERRORS = CorruptFileError, ImportError
# The columns of a scanner that say whether a CRC agrees: field and reason of the error if it does not.
CRC_COLUMNS = {
    "body_crc_agrees": ("bodyCrc", "is not the CRC of the body"),
    "record_crc_agrees": ("__CRC32#", "is missing, or is not the CRC of the record"),
}
CRC_FIELDS = frozenset(field for field, _ in CRC_COLUMNS.values())


def is_wrong_crc(error: BodyError | None) -> TypeGuard[CorruptFileError]:
    """Return whether an error says that a body does not match its CRC."""
    return isinstance(error, CorruptFileError) and error.field in CRC_FIELDS


class OversizedBodyError(CorruptFileError):
    """A body that is larger, when decompressed, than the caller allows."""


def compress(body: bytes, codec: str) -> tuple[bytes, int]:
    """Return a body as a client compresses it, and the system flags that say how.

    Parameters: codec: "zlib", "lz4" or "zstd"; releases before 4.9.4 read zlib alone.
    Raises: ValueError for another codec; ModuleNotFoundError. Source: DefaultMQProducerImpl.tryToCompressMessage.
    """
    if codec not in TYPES:
        raise ValueError(f"compress={codec!r}: must be one of zlib, lz4, zstd")
    if codec == "zlib":
        raw = zlib.compress(body, LEVEL)
    elif codec == "lz4":
        lz4 = import_extra("lz4.frame", "codecs")
        # As LZ4FrameOutputStream does; of linked blocks Java makes nothing.
        writer = lz4.LZ4FrameCompressor(block_size=lz4.BLOCKSIZE_MAX4MB, block_linked=False)
        raw = writer.begin() + writer.compress(body) + writer.flush()
    else:
        zstandard = import_extra("zstandard", "codecs")
        raw = zstandard.ZstdCompressor(LEVEL, write_content_size=False).compress(body)
    return raw, COMPRESSED | TYPES[codec] << COMPRESSION_TYPE_SHIFT


def decompress(raw: bytes, sys_flag: int, phy_offset: int = 0, max_size: int = MAX_BODY_SIZE) -> bytes:
    """Return the body of a message from what is stored.

    Parameters: raw: bytes. sys_flag: says whether and how they are compressed. phy_offset: for the error. max_size:
    the most bytes that may come of it. Raises: CorruptFileError if they do not decompress;
    OversizedBodyError if they become more.
    Source: MessageDecoder.decode, CompressorFactory.
    """
    if not sys_flag & COMPRESSED or not raw:
        return raw
    kind = sys_flag >> COMPRESSION_TYPE_SHIFT & 7
    try:
        body = {"zlib": unzlib, "lz4": unlz4, "zstd": unzstd}[CODECS[kind]](raw, max_size)
    except KeyError:
        raise CorruptFileError("commit log", phy_offset, "sysFlag", f"there is no compression type {kind}") from None
    except (ValueError, EOFError, RuntimeError, zlib.error) as error:
        reason = f"does not decompress with {CODECS[kind]}: {error}"
        raise CorruptFileError("commit log", phy_offset, "body", reason) from None
    if len(body) > max_size:
        advice = "read the columns raw_body and sys_flag, and decompress raw_body yourself"
        reason = f"is more than {max_size:,} bytes when decompressed: {advice}"
        raise OversizedBodyError("commit log", phy_offset, "body", reason)
    return body


def body_error_text(error: BodyError) -> str:
    """Return why a body cannot be decoded, for the column ``body_error``. Other columns have the record's place."""
    return f"{error.field}: {error.reason}" if isinstance(error, CorruptFileError) else str(error)


def unzlib(raw: bytes, max_size: int) -> bytes:
    decoder = zlib.decompressobj()
    body = decoder.decompress(raw, max_size + 1)
    if not decoder.eof and len(body) <= max_size:
        raise EOFError("it is cut")
    return body


def unlz4(raw: bytes, max_size: int) -> bytes:
    frame = import_extra("lz4.frame", "codecs")
    return join_frames(frame.LZ4FrameDecompressor, raw, max_size, 65536)


def unzstd(raw: bytes, max_size: int) -> bytes:
    zstandard = import_extra("zstandard", "codecs")
    try:
        # 4 bytes may become 128 KiB: small pieces keep what is too much small.
        return join_frames(zstandard.ZstdDecompressor().decompressobj, raw, max_size, 512)
    except zstandard.ZstdError as error:
        raise ValueError(error) from None


def join_frames(new_decoder: Callable[[], Any], raw: bytes, max_size: int, max_piece: int) -> bytes:
    """Decompress all frames, piece by piece, until they are more than ``max_size`` bytes."""
    body, at = bytearray(), 0
    for _ in range(MAX_FRAMES):
        if at == len(raw):
            return bytes(body)
        decoder, step = new_decoder(), 64
        while not decoder.eof:
            if at == len(raw):
                raise EOFError("it is cut")
            piece = raw[at : at + step]
            body += decoder.decompress(piece)
            if len(body) > max_size:
                return bytes(body)
            at += len(piece)
            step = min(2 * step, max_piece)
        at -= len(decoder.unused_data or b"")
    if at < len(raw):
        raise ValueError(f"it has more than {MAX_FRAMES} frames")
    return bytes(body)
