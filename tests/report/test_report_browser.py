"""The report page in headless Chromium: readable at each width, light and dark, and printed; text stays text."""

import json
import os
import re
import shutil
import subprocess
import zlib

import pytest
from support import report_store

import rocketstore
from rocketstore import Message
from rocketstore.report.make_report import make_report
from rocketstore.report.page import POLICY
from rocketstore.report.style import COLOURS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, a package of Debian"),
]
SIZES = [390, 1200, 1920]
TRAFFIC = "Messages and bytes over time"
LONG = "a-topic-whose-name-is-longer-than-the-room-that-a-phone-has-for-it-" + "x" * 50
# The page forbids scripts. A copy of it reports through the console, which also has the errors of the page.
MEASURE = """<script>
function colour(element, name) { return getComputedStyle(element)[name]; }
function isShown(element) { return element.getClientRects().length > 0; }
const lost = [], hidden = [];
const texts = "svg text, h1, h2, h3, dd, dt, summary, figcaption, td, th, li, p, span";
for (const text of document.querySelectorAll(texts)) {
  const box = text.getBoundingClientRect(), isOut = box.left < -1 || box.right > innerWidth + 1;
  if (box.width && isOut && !text.closest(".scroll")) lost.push(text.textContent);
}
for (const name of document.querySelectorAll(".name, .legend li, h1, .value"))
  if (isShown(name) && name.scrollWidth > name.clientWidth + 1 && getComputedStyle(name).display !== "inline")
    hidden.push(name.textContent);
const plots = [...document.querySelectorAll(".plot")].filter(isShown).map(plot => {
  const [side, plane] = plot.children;
  const labels = [...plane.querySelectorAll("text")].filter(isShown).map(text => text.getBoundingClientRect());
  const overlaps = labels.some((a, i) => labels.some((b, j) => i < j && Math.abs(a.top - b.top) < 3 &&
    a.left < b.right && b.left < a.right));
  const box = plane.getBoundingClientRect();
  const marks = [...plane.querySelectorAll("rect:not(.hover), circle")].map(mark => mark.getBoundingClientRect());
  return {
    marks: marks.length, label: plane.getAttribute("aria-label"), width: box.width, overlaps, ticks: labels.length,
    inside: marks.every(mark => mark.left >= box.left - 5 && mark.right <= box.right + 5 && mark.top >= box.top - 1),
    text: colour(plane.querySelector("text"), "fill"), titles: plane.querySelectorAll("title").length,
  };
});
const tracks = [...document.querySelectorAll(".bars")].filter(isShown).map(bars =>
  [...bars.querySelectorAll(".track")].map(track => Math.round(track.getBoundingClientRect().width)));
console.log("MEASURED " + JSON.stringify({
  plots, lost, hidden, tracks, width: innerWidth, scrollWidth: document.documentElement.scrollWidth,
  page: colour(document.body, "backgroundColor"), card: colour(document.querySelector("section"), "backgroundColor"),
  text: colour(document.body, "color"), headline: colour(document.querySelector(".headline"), "color"),
  scripts: document.scripts.length, images: document.images.length,
  texts: [...document.querySelectorAll("td")].map(cell => cell.textContent),
  legend: [...document.querySelectorAll(".legend bdi")].map(label => label.textContent),
  titles: [...document.querySelectorAll("title")].map(title => title.textContent),
}));
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The page of a store with everything that a report shows, as ``report.html``; ``measured.html`` reports on it."""
    root = tmp_path_factory.mktemp("report-browser") / "store"
    report_store.build(root)
    with rocketstore.open(root, "a", config=report_store.CONFIG) as store:
        time = report_store.BEGIN + 700 * report_store.MESSAGES + 90_000
        for topic in (LONG, "订单", "constructor", "SCHEDULE_TOPIC_XXXX"):
            messages = [Message(topic, b"b" * 200, tags="标签", keys=[f"k{n}"], queue_id=0) for n in range(60)]
            store.put_messages(messages, store_timestamp=time)
    with rocketstore.open(root, config=report_store.CONFIG) as store:
        page = make_report(store)
    path = root.parent / "report.html"
    path.write_text(page, encoding="utf-8")
    begin, end = page.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'").rsplit("</body>", 1)
    path.with_name("measured.html").write_text(f"{begin}{MEASURE}</body>{end}", encoding="utf-8")
    return path


def run_chromium(page, url, *flags):
    """Run the browser. Return what it wrote."""
    profile = page.parent / "chromium"
    common = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--user-data-dir={profile}"]
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}  # of make sanitize
    command = [CHROMIUM, *common, "--virtual-time-budget=20000", *flags, url]
    return subprocess.run(command, text=True, capture_output=True, timeout=120, check=True, env=environment)


def frame_of(page, name, width, height):
    """Return the address of a page with the report in a frame, since a window has at least 500 pixels."""
    frame = page.with_name(f"frame-{width}-{height}.html")
    size = f'width="{width}" height="{height}" style="border: 0; display: block"'
    frame.write_text(f'<!DOCTYPE html><body style="margin: 0"><iframe src="{name}" {size}></iframe>')
    return frame.as_uri()


def measure(page, width, *flags):
    """Open the page. Return what it measured, and other lines of the console."""
    url = frame_of(page, "measured.html", width, 900)
    answer = run_chromium(page, url, *flags, "--window-size=2000,1000", "--enable-logging=stderr", "--dump-dom")
    lines = re.findall(r"CONSOLE:\d+\] (.*)", answer.stderr)
    (measured,) = [line for line in lines if line.startswith('"MEASURED ')]
    data = re.search(r'"MEASURED (\{.*\})"', measured)
    return json.loads(data[1]), [line for line in lines if line != measured]


def brightness(colour):
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return 0.3 * red + 0.6 * green + 0.1 * blue


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_the_page_has_no_error_and_is_readable(page, width, is_dark):
    measured, others = measure(page, width, *["--force-dark-mode"] * is_dark)
    assert others == []
    assert measured["width"] == width
    assert measured["scrollWidth"] <= width  # nothing is beside the page
    assert (measured["lost"], measured["hidden"]) == ([], [])
    assert len(measured["plots"]) == 4
    for plot in measured["plots"]:
        assert plot["marks"] > 0
        assert plot["inside"]
        assert plot["label"]
        assert plot["titles"] > 0
        assert not plot["overlaps"]
        assert plot["ticks"] >= 2
        assert 0.65 * min(width, 1120) < plot["width"] < width
        assert abs(brightness(plot["text"]) - brightness(measured["card"])) > 150
    assert all(len(set(tracks)) == 1 for tracks in measured["tracks"])  # bars of one chart have one scale
    assert (brightness(measured["page"]) < 60) == is_dark
    assert abs(brightness(measured["text"]) - brightness(measured["page"])) > 150
    assert abs(brightness(measured["headline"]) - brightness(measured["card"])) > 90


def test_names_of_the_store_stay_text_and_are_in_full(page):
    measured, others = measure(page, 1200)
    assert others == []
    assert measured["scripts"] == 1  # that of this test
    assert measured["images"] == 0
    for name in (report_store.SCRIPT, report_store.IMAGE, report_store.END):
        assert name in measured["texts"]
    assert LONG in measured["legend"]
    assert any(f"\n{LONG}: 60 messages" in title for title in measured["titles"])


# ---- pictures --------------------------------------------------------------------------------------------------


def read_png(data):
    """Return the rows of a PNG of 8 bits as bytes, and the bytes of a pixel."""
    chunks, at = {}, 8
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + data[at + 8 : at + 8 + size]
        at += 12 + size
    width = int.from_bytes(chunks[b"IHDR"][:4], "big")
    depth = {2: 3, 6: 4}[chunks[b"IHDR"][9]]
    raw, stride = zlib.decompress(chunks[b"IDAT"]), width * depth + 1
    rows, before = [], bytes(stride - 1)
    for start in range(0, len(raw), stride):
        before = unfiltered(raw[start], raw[start + 1 : start + stride], before, depth)
        rows.append(before)
    return rows, depth


def unfiltered(kind, line, before, depth):
    """Return a row of a PNG without its filter. Parameters: before: the row above it."""
    if kind == 0:
        return line
    row = bytearray(line)
    for place in range(len(row)):
        left, above = row[place - depth] if place >= depth else 0, before[place]
        if kind == 4:
            corner = before[place - depth] if place >= depth else 0
            guess = left + above - corner
            nearest = min((left, above, corner), key=lambda value: abs(guess - value))
        else:
            nearest = (left, above, (left + above) // 2)[kind - 1]
        row[place] = (row[place] + nearest) & 255
    return bytes(row)


def pixels_of(page, width, *flags):
    """Return the colours of a picture of the charts over time: how many pixels have each."""
    picture, height = page.with_name(f"{width}{''.join(flags)}.png"), 420
    section = page.read_text(encoding="utf-8").partition(f">{TRAFFIC}</a>")[0].rpartition('"#')[2].rstrip('"')
    url = frame_of(page, f"report.html#{section}", width, height)
    run_chromium(page, url, *flags, f"--window-size={max(width, 500)},{height}", f"--screenshot={picture}")
    rows, depth = read_png(picture.read_bytes())
    counts = {}
    for row in rows:
        for place in range(0, width * depth, depth):
            colour = row[place : place + 3]
            counts[colour] = counts.get(colour, 0) + 1
    return counts


@pytest.mark.parametrize("is_dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", SIZES)
def test_a_picture_of_the_page_has_the_colours_of_its_charts(page, width, is_dark):
    counts = pixels_of(page, width, *["--force-dark-mode"] * is_dark)
    for colour in COLOURS[:3]:
        assert counts.get(bytes.fromhex(colour[1:]), 0) > 50, colour
    card = bytes.fromhex("181d23" if is_dark else "ffffff")
    assert counts[card] > 0.3 * sum(counts.values())


def test_a_printed_page_has_the_verdict_on_a_white_page(page):
    paper = page.with_name("report.pdf")
    run_chromium(page, page.as_uri(), "--force-dark-mode", "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    data = paper.read_bytes()
    assert data.startswith(b"%PDF")
    pages = len(re.findall(rb"/Type */Page\b", data))
    assert 2 <= pages <= 20
