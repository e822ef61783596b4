"""Small templates of inline SVG. A drawing is as wide as its place in the page, and its text keeps its size.

So horizontal places are shares of the width, written in percent, and vertical places are pixels. A drawing has no
script: a ``title`` in a mark is shown when the mouse rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from rocketstore.report.axes import Tick
from rocketstore.text_values import printable

ABOVE, BELOW = 8, 36  # pixels above and below the plane of a plot
EDGE = 0.12  # labels nearer to an end of a horizontal axis do not stand in the middle of their tick


def text_html(text: str) -> str:
    """Return a text for HTML. Characters that are not printable become escape sequences."""
    return escape(printable(text))


def element(name: str, *children: str, **attributes: str | float) -> str:
    """Return an element. Parameters: children: SVG. attributes: an underscore stands for a hyphen, also at the end."""
    names = ((key.removesuffix("_").replace("_", "-"), value) for key, value in attributes.items())
    parts = "".join(f' {key}="{number_text(value)}"' for key, value in names)
    return f"<{name}{parts}>{''.join(children)}</{name}>" if children else f"<{name}{parts}/>"


def number_text(value: str | float) -> str:
    return text_html(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share of the width in percent."""
    return f"{100 * share:.3f}".rstrip("0").rstrip(".") + "%"


def title(lines: Iterable[str]) -> str:
    """Return what is shown when the mouse rests on a mark."""
    return f"<title>{'&#10;'.join(map(text_html, lines))}</title>"


def drawing(height: float, label: str, marks: Iterable[str], kind: str = "") -> str:
    """Return a drawing. Parameters: height: pixels. label: for screen readers. kind: a class of the style."""
    attributes: dict[str, str | float] = {"width": "100%", "height": height, "role": "img", "aria_label": label}
    return element("svg", *marks, **attributes, **({"class_": kind} if kind else {}))


def plot(height: float, label: str, marks: Iterable[str], y_ticks: Sequence[Tick], x_ticks: Sequence[Tick]) -> str:
    """Return a plot with its axes.

    Parameters: height: of the plane, pixels. label: for screen readers. marks: in the plane: the top of the plane is at
    ``ABOVE`` pixels.
    """
    bottom = ABOVE + height
    names = [
        element("text", text_html(tick.label), x="100%", dx=-6, y=bottom - tick.share * height + 4) for tick in y_ticks
    ]
    lines = [
        element("line", x1=0, x2="100%", y1=y, y2=y, class_="grid")
        for y in (bottom - tick.share * height for tick in y_ticks)
    ]
    below = [part for number, tick in enumerate(x_ticks) for part in x_tick(tick, bottom, is_extra=number % 2 == 1)]
    side = element("svg", *names, width=64, height=bottom + BELOW, class_="side", aria_hidden="true")
    plane = drawing(bottom + BELOW, label, [*lines, *marks, *below])
    return f'<div class="plot">{side}{plane}</div>'


def x_tick(tick: Tick, bottom: float, *, is_extra: bool) -> Iterable[str]:
    """Yield the line and the label of a tick. Parameters: is_extra: whether a narrow page leaves it out."""
    anchor = "start" if tick.share < EDGE else "end" if tick.share > 1 - EDGE else "middle"
    x, kind = percent(tick.share), "tick extra" if is_extra else "tick"
    yield element("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis")
    for text, y in ((tick.label, bottom + 17), (tick.below, bottom + 32)):
        if text:
            yield element("text", text_html(text), x=x, y=y, text_anchor=anchor, class_=kind)
