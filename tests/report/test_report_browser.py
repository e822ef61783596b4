"""The report page in headless Chromium: no error, marks in each chart, readable narrow and dark, text stays text."""

import json
import os
import re
import shutil
import subprocess

import pytest
from support import report_store

import rocketstore
from rocketstore.report.make_report import make_report

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, a package of Debian")
CHARTS = 10
# Reports through the console, which also has the errors of the page.
MEASURE = """<script>
const MARKS = ".role-mark path";  // not those of axes and legends
function inView() {
  const lost = [];
  for (const text of document.querySelectorAll("svg text, h1, h2, dd, dt, summary, figcaption, td, th")) {
    const box = text.getBoundingClientRect();
    if (box.width && (box.left < -1 || box.right > innerWidth + 1) && !text.closest(".scroll"))
      lost.push(text.textContent);
  }
  return lost;
}
function colour(element, name) { return getComputedStyle(element)[name]; }
window.drawn.then(() => {
  const charts = [...document.querySelectorAll(".chart")].map(chart => ({
    marks: chart.querySelectorAll(MARKS).length,
    label: chart.querySelector("svg").getAttribute("aria-label") || chart.getAttribute("aria-label"),
    width: chart.querySelector("svg").getBoundingClientRect().width,
    text: colour(chart.querySelector("svg text"), "fill"),
  }));
  console.log("MEASURED " + JSON.stringify({
    charts, lost: inView(), width: innerWidth, scrollWidth: document.documentElement.scrollWidth,
    page: colour(document.body, "backgroundColor"), text: colour(document.body, "color"),
    scripts: document.scripts.length, images: document.images.length,
    texts: [...document.querySelectorAll("td")].map(cell => cell.textContent),
    legend: [...document.querySelectorAll(".role-legend-label text")].map(label => label.textContent),
  }));
}, error => console.log("FAILED " + error));
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    pytest.importorskip("vl_convert", reason="needs vl-convert-python, from the extra 'report'")
    root = tmp_path_factory.mktemp("report-browser") / "store"
    report_store.build(root)
    with rocketstore.open(root, config=report_store.CONFIG) as store:
        path = root.parent / "report.html"
        page, end = make_report(store).rsplit("</body>", 1)
        path.write_text(f"{page}{MEASURE}</body>{end}", encoding="utf-8")
    return path


def open_page(page, width, *flags):
    """Open the page in a frame, since a window has at least 500 pixels. Return what it measured, and other lines."""
    frame = page.with_name(f"frame-{width}.html")
    frame.write_text(f'<!DOCTYPE html><iframe src="{page.name}" width="{width}" height="900"></iframe>')
    command = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={page.parent / 'chromium'}",
        *flags,
        "--window-size=1400,1000",
        "--enable-logging=stderr",
        "--virtual-time-budget=20000",
        "--dump-dom",
        frame.as_uri(),
    ]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # of make sanitize
    answer = subprocess.run(command, text=True, capture_output=True, timeout=120, check=True, env=environment)
    lines = re.findall(r"CONSOLE:\d+\] (.*)", answer.stderr)
    (measured,) = [line for line in lines if line.startswith('"MEASURED ')]
    data = re.search(r'"MEASURED (\{.*\})"', measured)
    return json.loads(data[1]), [line for line in lines if line != measured]


def brightness(colour):
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return 0.3 * red + 0.6 * green + 0.1 * blue


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_has_no_error_and_is_readable(page, width, is_dark):
    measured, others = open_page(page, width, *["--force-dark-mode"] * is_dark)
    assert others == []
    assert measured["width"] == width
    assert measured["scrollWidth"] <= width  # nothing is beside the page
    assert measured["lost"] == []
    assert len(measured["charts"]) == CHARTS
    for chart in measured["charts"]:
        assert chart["marks"] > 0
        assert chart["label"]
        assert 0.7 * min(width, 1120) < chart["width"] < width
        assert abs(brightness(chart["text"]) - brightness(measured["page"])) > 150
    assert (brightness(measured["page"]) < 60) == is_dark
    assert abs(brightness(measured["text"]) - brightness(measured["page"])) > 150


def test_names_of_the_store_stay_text(page):
    measured, others = open_page(page, 1280)
    assert others == []
    assert measured["scripts"] == 4  # three of the page, and the one of this test
    assert measured["images"] == 0
    for name in (report_store.SCRIPT, report_store.IMAGE, report_store.END):
        assert name in measured["texts"]
    assert any(label.startswith("<script>alert(1)") for label in measured["legend"])
