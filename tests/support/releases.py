"""Releases of RocketMQ, compared by their numbers: as texts, "5.10.0" would be before "5.4.0"."""


def numbers_of(release):
    """Return the numbers of a release, as (5, 3, 3); compare them also with shorter tuples, as (5, 4)."""
    return tuple(map(int, release.split(".")))
