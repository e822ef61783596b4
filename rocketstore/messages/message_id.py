"""The ids of messages: of a place in the log, and the unique key that a client gives."""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import struct
import time
from datetime import datetime, timedelta

FAR_AWAY = ("192.0.2.1", "2001:db8::1")  # nobody has these
counter = itertools.count()
month = 0, 0  # when it begins and ends, epoch ms, in one object: threads see both of one month


def create_uniq_id() -> str:
    """Return a new unique key, as a client gives one to each message it sends: 32 hexadecimal digits, 56 with IPv6.

    It has the machine's address, the process, four bytes of the process's own, the milliseconds since the month began,
    and a counter. Source: MessageClientIDSetter.createUniqID.

    Examples:
    >>> len(create_uniq_id()) in (32, 56)
    True
    """
    now = time.time_ns() // 1_000_000
    millis = now - month_begin(now)
    # From the 25th on they are more than an int holds, and wrap as Java's cast does.
    return (process_prefix(os.getpid()) + struct.pack(">IH", millis & 0xFFFFFFFF, next(counter) & 0xFFFF)).hex().upper()


def month_begin(now: int) -> int:
    """When the month of an epoch ms began, which is kept until it ends. Source: MessageClientIDSetter.startTime."""
    global month
    begin, end = month
    if not begin <= now < end:
        begin, end = month = month_of(now)
    return begin


def month_of(now: int) -> tuple[int, int]:
    """When the local month of an epoch ms begins and ends. Source: MessageClientIDSetter.setStartTime."""
    first = datetime.fromtimestamp(now // 1000).replace(day=1, hour=0, minute=0, second=0, fold=0)
    following = (first + timedelta(days=31)).replace(day=1)
    return int(first.timestamp()) * 1000, int(following.timestamp()) * 1000


@functools.cache
def process_prefix(pid: int) -> bytes:
    """What the keys of a process begin with. In the place of a class loader's hash is a number drawn once."""
    return local_address() + struct.pack(">H", pid & 0xFFFF) + os.urandom(4)


def local_address() -> bytes:
    """The address that packets to elsewhere come from; where there is no network four bytes of the time."""
    import socket  # takes long to import, and readers make no keys

    for address in FAR_AWAY:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((address, 9))  # which sends nothing
            return socket.inet_pton(family, probe.getsockname()[0].partition("%")[0])
    return struct.pack(">I", time.time_ns() // 1_000_000 & 0xFFFFFFFF)


def make_msg_id(store_host: str, phy_offset: int) -> str:
    """Return the message id of a place. Source: MessageDecoder.createMessageId."""
    import socket  # takes long to import

    address, _, port = store_host.rpartition(":")
    family = socket.AF_INET6 if address.startswith("[") else socket.AF_INET
    packed = socket.inet_pton(family, address.strip("[]"))
    return (packed + struct.pack(">iq", int(port), phy_offset)).hex().upper()


def phy_offset_of(msg_id: str) -> int:
    """Return the physical offset in an offset message id: 32 hexadecimal digits with an IPv4 host, 56 with IPv6.

    Raises: ValueError if it is none. Source: MessageDecoder.decodeMessageId.
    """
    if re.fullmatch("[0-9A-Fa-f]{32}|[0-9A-Fa-f]{56}", msg_id):
        return int.from_bytes(bytes.fromhex(msg_id[-16:]), "big", signed=True)
    raise ValueError(f"{msg_id!r} is no message id: 32 or 56 hexadecimal digits were expected")
