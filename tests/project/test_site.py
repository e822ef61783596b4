"""The built site: it loads nothing from other hosts, nothing is cut on a narrow screen, and each page leads on."""

import html
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TREE = Path(__file__).parent.parent.parent
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")

pytestmark = [
    pytest.mark.slow,
    pytest.mark.normal_build,
    pytest.mark.skipif(not (TREE / ".ci").exists(), reason="tested away from the source tree"),
    pytest.mark.skipif(importlib.util.find_spec("zensical") is None, reason="needs zensical, from the group docs"),
]

# Opens each page in a frame, and collects what is wider than its place.
MEASURE = """<!doctype html><body><script>
const pages = PAGES, wide = [];
const parts = "article pre, article pre > code, article img, .md-typeset__scrollwrap";
function next() {
  if (!pages.length) { document.body.textContent = "MEASURED " + JSON.stringify(wide); return; }
  const frame = document.createElement("iframe"), page = pages.shift();
  frame.style = "width: WIDTHpx; height: 900px";
  frame.src = page;
  frame.onload = () => setTimeout(() => {
    const inner = frame.contentDocument, root = inner.documentElement;
    if (root.scrollWidth > root.clientWidth) wide.push([page, "page", root.scrollWidth]);
    if (!inner.querySelector("article")) wide.push([page, "has no text", 0]);
    for (const part of inner.querySelectorAll(parts))
      if (part.clientWidth && part.scrollWidth > part.clientWidth + 1)
        wide.push([page, part.textContent, part.scrollWidth]);
    frame.remove();
    next();
  }, 50);
  document.body.append(frame);
}
next();
</script>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The directory of the site, built without a warning."""
    root = tmp_path_factory.mktemp("site")
    subprocess.run([sys.executable, TREE / ".ci" / "docs.py", root / "docs"], check=True)
    settings = (TREE / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings.replace("docs_dir: build/docs", "docs_dir: docs").replace(
        "site_dir: build/site", "site_dir: site"
    )
    (root / "mkdocs.yml").write_text(settings, encoding="utf-8")
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    build = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert build.returncode == 0, build.stdout + build.stderr
    return root / "site"


@pytest.fixture(scope="module")
def pages(site):
    """The text of each page by its path."""
    found = {path: path.read_text(encoding="utf-8") for path in site.rglob("index.html")}
    assert len(found) > 60
    return found


def test_a_page_loads_nothing_from_other_hosts(pages, site):
    loaded = r"<(?:link|script|img|iframe)[^>]*(?:href|src)=[\"']?https?://[^>]*"
    assert {path: found for path, text in pages.items() if (found := re.findall(loaded, text))} == {}
    for style in site.rglob("*.css"):
        assert not re.findall(r"url\(['\"]?https?://|@import", style.read_text(encoding="utf-8")), style


def test_each_page_has_a_switch_for_dark_and_leads_to_the_next_one(pages):
    for path, text in pages.items():
        assert 'data-md-component="palette"' in text, path
        assert "md-footer__link--next" in text or "md-footer__link--prev" in text, path


def test_links_to_code_lead_to_a_line(pages, site):
    links = {link for text in pages.values() for link in re.findall(r"href=\"[./]*(source/[^\"]+#line-\d+)\"", text)}
    assert len(links) > 80
    for link in links:
        path, anchor = link.split("#")
        assert f'name="{anchor}"' in (site / path).read_text(encoding="utf-8")


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, a package of Debian")
@pytest.mark.parametrize("width", [690, 1280])
def test_nothing_is_cut(pages, tmp_path, width):
    measure = tmp_path / "measure.html"
    text = MEASURE.replace("PAGES", json.dumps([path.as_uri() for path in pages])).replace("WIDTH", str(width))
    measure.write_text(text, encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    files = ["--disable-web-security", "--allow-file-access-from-files"]  # a page looks into the frames of others
    command = [CHROMIUM, *flags, *files, "--virtual-time-budget=200000", "--dump-dom", measure.as_uri()]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # of make sanitize
    answer = subprocess.run(command, text=True, capture_output=True, timeout=300, check=True, env=environment)
    measured = re.search(r"MEASURED (\[.*\])", html.unescape(answer.stdout))
    assert json.loads(measured[1]) == []
