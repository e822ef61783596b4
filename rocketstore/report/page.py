"""The HTML of a report page: a verdict, and sections with texts, charts and tables.

Every text is escaped here or in ``svg``. The page has no script, and a content security policy forbids all requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from rocketstore.report.style import STYLE
from rocketstore.report.svg import text_html
from rocketstore.text_values import format_count

POLICY = "default-src 'none'; style-src 'unsafe-inline'"
GOOD, FAIR, BAD, UNKNOWN = "good", "fair", "bad", "unknown"


@dataclass
class Table:
    """A table with a caption. A value of a row is a text, a number, or None for an unknown value.

    Attributes: is_folded: whether only the caption is shown until the reader opens the table. more: the number of rows
    that are left out.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str | int | None]]
    is_folded: bool = True
    more: int = 0


@dataclass
class Chart:
    """A chart with a caption. Attributes: html: of the chart. is_folded: as that of a table."""

    caption: str
    html: str
    is_folded: bool = False


@dataclass
class Section:
    """One section. ``problems`` are shown before everything else."""

    title: str
    texts: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    charts: list[Chart] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.texts or self.problems or self.charts or self.tables)


@dataclass(frozen=True)
class Action:
    """Something to do. Attributes: command: that does it or tells more; None if no command does."""

    text: str
    command: str | None = None


@dataclass(frozen=True)
class VerdictBox:
    """The begin of the page.

    Attributes: tone: GOOD, FAIR, BAD or UNKNOWN. headline: whether the store is sound. sentences: lag, expiry, sizes.
    actions: what to do. problems: parts that cannot be read. facts: counts and times by name. notes: about the store.
    """

    tone: str
    headline: str
    sentences: Sequence[str] = ()
    actions: Sequence[Action] = ()
    problems: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = ()


def without_repetition(verdict: VerdictBox, sections: Iterable[Section]) -> Iterator[Section]:
    """Yield the sections without problems that were shown before, and without sections that have nothing else."""
    shown = set(verdict.problems)
    for section in sections:
        problems = [problem for problem in dict.fromkeys(section.problems) if problem not in shown]
        shown.update(problems)
        left = replace(section, problems=problems)
        if not left.is_empty:
            yield left


def render_page(title: str, subtitle: str, verdict: VerdictBox, sections: Iterable[Section]) -> str:
    """Return the page."""
    shown = list(without_repetition(verdict, sections))
    links = "".join(f'<a href="#section-{n}">{text_html(section.title)}</a>' for n, section in enumerate(shown))
    parts = "".join(part for number, section in enumerate(shown) for part in section_html(section, number))
    return (
        '<!DOCTYPE html>\n<html lang="en" id="top">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{text_html(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f'<body>\n<main>\n<h1>{text_html(title)}</h1>\n<p class="soft">{text_html(subtitle)}</p>\n'
        f'{"".join(verdict_html(verdict))}<nav aria-label="Sections">{links}</nav>\n{parts}</main>\n</body>\n</html>\n'
    )


def verdict_html(verdict: VerdictBox) -> Iterator[str]:
    yield f'<section class="verdict {verdict.tone}">\n<h2 class="headline">{text_html(verdict.headline)}</h2>\n'
    if verdict.sentences:
        yield f"<p>{text_html(' '.join(verdict.sentences))}</p>\n"
    if verdict.actions:
        yield f"<h3>To do</h3>\n<ul>{''.join(map(action_html, verdict.actions))}</ul>\n"
    yield from paragraphs(verdict.problems, "warning")
    yield from paragraphs(verdict.notes, "soft")
    if verdict.facts:
        facts = ((text_html(name), text_html(value)) for name, value in verdict.facts)
        yield f"<dl>{''.join(f'<div><dt>{name}</dt><dd>{value}</dd></div>' for name, value in facts)}</dl>\n"
    yield "</section>\n"


def paragraphs(texts: Iterable[str], kind: str = "") -> Iterator[str]:
    """Yield each text as a paragraph. Parameters: kind: a class of the style."""
    begin = f'<p class="{kind}">' if kind else "<p>"
    yield from (f"{begin}{text_html(text)}</p>\n" for text in texts)


def action_html(action: Action) -> str:
    command = "" if action.command is None else f" <code>{text_html(action.command)}</code>"
    return f"<li>{text_html(action.text)}{command}</li>"


def section_html(section: Section, number: int) -> Iterator[str]:
    """Yield the HTML of a section. Parameters: number: makes the target of links."""
    yield f'<section id="section-{number}">\n<h2>{text_html(section.title)}</h2>\n<a class="top" href="#top">top</a>\n'
    yield from paragraphs(section.problems, "warning")
    yield from paragraphs(section.texts)
    yield from map(chart_html, section.charts)
    yield from map(table_html, section.tables)
    yield "</section>\n"


def chart_html(chart: Chart) -> str:
    caption = text_html(chart.caption)
    if chart.is_folded:
        return f"<details><summary>{caption}</summary><figure>{chart.html}</figure></details>\n"
    return f"<figure><figcaption>{caption}</figcaption>{chart.html}</figure>\n"


def table_html(table: Table) -> str:
    numbers = {place for row in table.rows for place, value in enumerate(row) if isinstance(value, int)}
    names = [*enumerate(table.columns)]
    header = "".join(f'<th scope="col"{number_class(place in numbers)}>{text_html(name)}</th>' for place, name in names)
    rows = "".join(
        f"<tr>{''.join(cell_html(table.columns[i], v) for i, v in enumerate(row))}</tr>\n" for row in table.rows
    )
    more = f'<p class="soft">{format_count(table.more, "more row")} left out.</p>' if table.more else ""
    kind = "" if table.is_folded else ' class="stacked"'
    inner = (
        f'<div class="scroll"><table{kind}><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table></div>{more}'
    )
    if table.is_folded:
        return f"<details><summary>{text_html(table.caption)}</summary>{inner}</details>\n"
    return f"<h3>{text_html(table.caption)}</h3>{inner}\n"


def number_class(is_number: bool) -> str:
    return ' class="number"' if is_number else ""


def cell_html(column: str, value: str | int | None) -> str:
    name = f' data-name="{text_html(column)}"'  # shown before the value if the page is narrow
    if isinstance(value, int):
        return f'<td class="number"{name}>{value:,}</td>'
    text = text_html("-" if value is None else value)
    if column == "severity":
        return f'<td class="{text}"{name}>{text}</td>'
    return f"<td{name}><code>{text}</code></td>" if column == "mend" and value is not None else f"<td{name}>{text}</td>"
