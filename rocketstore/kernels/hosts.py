"""Hosts as records store them: an address and a port."""

import struct


def parse_host(host: str) -> bytes:
    """Return the bytes that a record stores for a host.

    Parameters: host: an address and a port, "1.2.3.4:80" or "[::1]:80".
    Raises: ValueError for any other text.
    """
    import socket  # takes long to import, and readers parse no host

    address, _, port = host.rpartition(":")
    is_v6 = address.startswith("[") and address.endswith("]")
    try:
        packed = socket.inet_pton(socket.AF_INET6 if is_v6 else socket.AF_INET, address.strip("[]"))
        return packed + struct.pack(">xxH", int(port if port.isascii() and port.isdecimal() else "none"))
    except (OSError, ValueError, struct.error):
        raise ValueError(f"host {host!r}: must be an address and a port, as 127.0.0.1:80 or [::1]:80") from None
