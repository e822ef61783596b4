"""Values of a parameter of which a quick run takes only some."""

import pytest


def only_some_quick(values, *quick):
    """Return all values for ``pytest.mark.parametrize``. Those that are not in ``quick`` are marked as slow."""
    assert all(value in values for value in quick)
    return [value if value in quick else _slow(value) for value in values]


def _slow(value):
    values = value if isinstance(value, tuple) else (value,)
    return pytest.param(*values, marks=pytest.mark.slow)
