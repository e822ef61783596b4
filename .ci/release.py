"""What a release needs from the tree.

Usage: ``.ci/release.py check TAG`` exits with an error if the tag, the version and CHANGELOG.md do not agree.
``.ci/release.py notes`` prints the section of CHANGELOG.md for the version.
``.ci/release.py rocketmq`` exits with an error if a RocketMQ release is newer than the newest release that is proved.
"""

import re
import sys
import tomllib
import urllib.request
from pathlib import Path

TREE = Path(__file__).parent.parent
METADATA = "https://repo1.maven.org/maven2/org/apache/rocketmq/rocketmq-store/maven-metadata.xml"


def read_version(tree: Path) -> str:
    return str(tomllib.loads((tree / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"])


def read_changes(tree: Path, version: str) -> tuple[str, str]:
    """Return the date of a version in CHANGELOG.md, and the text below its heading. Exit if it has no heading."""
    text = (tree / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(rf"^## \[{re.escape(version)}\] - (.*)\n((?:(?!## ).*(?:\n|\Z))*)", text, re.MULTILINE)
    if found is None:
        sys.exit(f"CHANGELOG.md: has no heading for version {version}. Write '## [{version}] - YEAR-MONTH-DAY'.")
    return found[1], found[2].strip() + "\n"


def check_tag(tree: Path, tag: str) -> None:
    """Exit with an error unless a tag is the version's, and CHANGELOG.md has a date for the version."""
    version = read_version(tree)
    if tag != f"v{version}":
        sys.exit(
            f"pyproject.toml: the version is {version}, but the tag is {tag}. Tag v{version}, or change the version."
        )
    date, changes = read_changes(tree, version)
    if not re.fullmatch(r"\d{4}-\d\d-\d\d", date):
        sys.exit(f"CHANGELOG.md: the date of version {version} is {date!r}. Write YEAR-MONTH-DAY before the release.")
    if not changes.strip():
        sys.exit(f"CHANGELOG.md: version {version} has no text. Write what users notice.")


def parse_release(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split(".")))


def newest_proved(tree: Path) -> str:
    """Return the newest RocketMQ release that the tests compare with, which is the default of ``compat=``."""
    text = (tree / "rocketstore" / "compat.py").read_text(encoding="utf-8")
    (release,) = re.findall(r'^DEFAULT_COMPAT = "([\d.]+)"$', text, re.MULTILINE)
    return str(release)


def newer_releases(metadata: str, proved: str) -> list[str]:
    """Return the final releases of Maven's metadata that are newer than a release, oldest first."""
    releases = set(re.findall(r"<version>(\d+\.\d+\.\d+)</version>", metadata))
    if proved not in releases:
        sys.exit(f"{METADATA}: RocketMQ {proved} is missing. The address or the format of the page has changed.")
    return sorted((text for text in releases if parse_release(text) > parse_release(proved)), key=parse_release)


def check_rocketmq(tree: Path) -> None:
    with urllib.request.urlopen(METADATA, timeout=60) as answer:
        metadata = answer.read().decode()
    proved = newest_proved(tree)
    if newer := newer_releases(metadata, proved):
        sys.exit(
            f"RocketMQ {', '.join(newer)} is newer than {proved}, the newest release that the tests compare with. "
            "docs/releasing.md says what to do."
        )
    print(f"RocketMQ {proved} is the newest release, and the tests compare with it.")


def main() -> None:
    match sys.argv[1:]:
        case ["check", tag]:
            check_tag(TREE, tag)
        case ["notes"]:
            print(read_changes(TREE, read_version(TREE))[1], end="")
        case ["rocketmq"]:
            check_rocketmq(TREE)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
