"""The number of descriptors that the process may have open, and the part of them that a component may keep."""

from __future__ import annotations

import resource

__all__ = ["descriptor_share"]


def descriptor_share(divisor: int, *, least: int, most: int) -> int:
    """Return how many descriptors a component may keep open.

    Parameters
    ----------
    divisor : int
        The component may keep the process's limit (``ulimit -n``) divided by this number.
    least, most : int
        Bounds of the result, both inclusive. An unlimited process gives ``most``.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if limit == resource.RLIM_INFINITY else min(max(limit // divisor, least), most)
