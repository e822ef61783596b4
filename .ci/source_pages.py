"""Write the modules of the package as pages, so that the documentation leads to the code that it describes.

The site then has all of its links without the address of a repository. A page is plain HTML: the search of the site
does not read it.
"""

import inspect
from pathlib import Path
from typing import Any

TREE = Path(__file__).resolve().parent.parent
DIRECTORY = "source"  # below the root of the site
PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{name}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 14px/1.45 ui-monospace, monospace; margin: 1rem; }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere; margin: 0; }}
.linenos {{ opacity: 0.5; padding-right: 1em; user-select: none; }}
span:target, a:target + span {{ background: #ffd54f66; }}
{light}
@media (prefers-color-scheme: dark) {{
{dark}
}}
</style>
<h1>{name}</h1>
{code}
</html>
"""


def module_of(value: Any) -> Path | None:
    """Return the file that defines a class or a function, below the tree. Return None for compiled code."""
    try:
        path = Path(inspect.getsourcefile(inspect.unwrap(value)) or "")
    except TypeError:
        return None
    return path.relative_to(TREE) if path.is_relative_to(TREE / "rocketstore") else None


def source_link(value: Any) -> str:
    """Return a link in Markdown from a page of the API to the code of a class or a function. It may be empty."""
    module = module_of(value)
    if module is None:
        return ""
    line = inspect.getsourcelines(inspect.unwrap(value))[1]
    return f"[{module}](../{DIRECTORY}/{module}.html#line-{line}){{ .source title='the code' }}\n"


def write_source_pages(directory: Path, values: list[Any]) -> None:
    """Write a page for each module that defines one of the values, below a directory."""
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import PythonLexer

    dark = HtmlFormatter(style="github-dark")
    light = HtmlFormatter(style="default", linenos="inline", lineanchors="line", linespans="span")
    for module in sorted({module for value in values if (module := module_of(value))}):
        code = highlight((TREE / module).read_text(encoding="utf-8"), PythonLexer(), light)
        page = PAGE.format(
            name=module, code=code, light=light.get_style_defs(".highlight"), dark=dark.get_style_defs(".highlight")
        )
        path = directory / DIRECTORY / f"{module}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page, encoding="utf-8")
