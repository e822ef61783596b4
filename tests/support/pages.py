"""The code on the pages of the documentation."""

import re


def blocks_of(text):
    """The fences ``python`` and ``sh`` of a page, each with its language. A fence ``text`` is not among them."""
    return re.findall(r"^```(python|sh)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
