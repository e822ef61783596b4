"""Write the pages of the Python API: an overview, and a page for each task with the docstrings of its names."""

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from source_pages import source_link, write_source_pages

SECTIONS = ("Parameters", "Returns", "Raises", "Notes", "Examples", "Attributes", "Yields")
# How an entry of a section begins.
ENTRIES = {
    "Parameters": r"([\w, .*]+?) ?: (.*)",
    "Attributes": r"([\w, .*]+?) ?: (.*)",
}
ERROR = r"\A([\w.]+(?:, [\w.]+)*) ?: "  # the names of an error, before its text
# Where the next error begins in the text of a section Raises, which may have several errors in one line.
NEXT_ERROR = r"(?<=[.;]) (?=[\w.]*(?:Error|Operation|Interrupt)\b(?: :|,|\.| for| if| without| also|$))"
SIGNATURE_WIDTH = 76  # columns; a longer signature has a line for each parameter


class Task(NamedTuple):
    """A page of the API: its file without a suffix, its title, what it is for, and its names in their order."""

    page: str
    title: str
    summary: str
    names: str


TASKS = (
    Task(
        "open", "Open a store", "Open one store or several, and ask them.", "open open_many MessageStore BrokerStores"
    ),
    Task("topic", "A topic", "`store[NAME]` is a topic: its queues, length, messages and times.", "Topic Topics"),
    Task("message", "A message", "What is put and read.", "Message create_uniq_id"),
    Task(
        "batch",
        "Scans, batches and columns",
        "Read many messages as columns: a scan gives batches.",
        "Scan MessageBatch scan_polars BrokerScan BrokerRows Where BodyContains BodyMatches StringColumn BinaryColumn "
        "ListColumn MapColumn",
    ),
    Task("config", "Configuration", "The settings of a store, and those of a broker.", "StoreConfig BrokerConfig"),
    Task(
        "functions",
        "Functions",
        "What is done to a whole store: check it, repair it, copy it, compare it.",
        "verify recover rebuild patch salvage copy diff convert split bundle hash_keys",
    ),
    Task(
        "results",
        "Results of a store's methods",
        "The values that methods of a store return.",
        "PutMessageResult PutMessagesResult GetMessageResult GetMessageStatus QueryMessageResult QueryMessagesResult "
        "PhyOffsets PhyOffsetByTime QueryOffsetResult DispatchRequest StoreSummary ConsumerLag DeadMessages "
        "DeadMessage DeadTotal PendingMessages PendingMessage PendingTotal Unconsumed UnconsumedMessage "
        "UnconsumedTotal MessageTrace TraceEvent Counts DiskUsage PartUsage DiskSpace MessageUsage GroupUsage "
        "ExpiryPlan FileToDelete QueueLoss "
        "ConsumerGroupLoss ExpiredFiles Metrics Sample SqlResult NewPart",
    ),
    Task(
        "reports",
        "Reports of functions",
        "The values that the functions return.",
        "VerifyReport Finding LostMessage RecoveryReport RebuildReport PatchReport CorrectedRecord RefusedRange "
        "SalvageReport LostRange UnverifiedRange DiffReport Difference LogRange CopyReport CopiedPart ConvertReport "
        "StaleId SplitReport SplitPart BundleReport BundledFile",
    ),
    Task(
        "errors",
        "Errors",
        "The errors of the package. Errors of the operating system and of arguments are Python's own.",
        "StoreError CorruptFileError DiskReadError PutMessageError StoreClosedError StoreLockedError "
        "UnsupportedFormatError",
    ),
    Task(
        "parts",
        "Parts of a store",
        "The files of a store, one structure at a time. Most programs need only the store.",
        "CommitLog ConsumeQueue BatchConsumeQueue ConsumeQueueExt IndexFile IndexService IndexHeader StoreCheckpoint "
        "MappedFile SelectMappedBufferResult RemotePath",
    ),
)

# Methods of public classes that other modules of the package call. The page leaves them out.
INTERNAL = {
    "CommitLog": "as_whole_to error find_sound_message look with_leftovers",
    "BatchConsumeQueue": "has_batches offset_after_missing_file run_type writer_type",
    "ConsumeQueue": "has_batches offset_after_missing_file run_type writer_type",
    "DispatchRequest": "of",
    "IndexFile": "check_file entries_between find_lost identity span",
    "IndexService": "build_items check_file_sizes select_phy_offsets_by_hash",
    "MappedFile": "allocate_holes check_file reading",
    "Message": "of_fields",
    "MessageBatch": "stored_columns to_put",
    "MessageStore": (
        "find_commit_log find_compacted_queues find_file_queues describe_missing_units formats is_bounded "
        "leave_out_compacted "
        "find_other_sources query_keys of_entry of_survey of_writing_entry plan_other_logs reads_other_logs tier"
    ),
    "PutMessagesResult": "join of",
    "RemotePath": "content_version error forget hold_lists is_within list_time named reading require_all version",
    "Scan": "adapted joined_with log with_rows without_phy_offsets",
    "StoreCheckpoint": "clear",
    "StoreConfig": "commit_log_paths require_usable",
    "BinaryColumn": "bytes_between values_between with_nulls",
    "ListColumn": "values_between",
    "MapColumn": "values_between",
    "StringColumn": "bytes_between values_between with_nulls",
}


def escape(text: str) -> str:
    """Escape the characters that Markdown reads as markup. Text in backticks stays."""
    parts = re.split(r"(``.*?``|`.*?`)", text, flags=re.DOTALL)
    return "".join(part if index % 2 else re.sub(r"([*\[\]<>|_])", r"\\\1", part) for index, part in enumerate(parts))


def markdown_of(docstring: str) -> str:
    """Turn a docstring with NumPy sections into Markdown: headings become bold, and parameters items of a list."""
    docstring, in_rocketmq = split_source(inspect.cleandoc(docstring))
    lines = list_errors(docstring).splitlines()
    out: list[str] = []
    section, in_code = "", False
    for index, line in enumerate(lines):
        following = lines[index + 1] if index + 1 < len(lines) else ""
        if line in SECTIONS and re.fullmatch(r"-+", following):
            section = line
            out += ["", f"**{line}**", ""]
        elif re.fullmatch(r"-+", line) and index and lines[index - 1] in SECTIONS:
            continue
        elif line.lstrip().startswith(">>>") or (in_code and line.strip()):
            out += [] if in_code else ["", "```pycon"]
            in_code = True
            out.append(line.strip())
        else:
            out += ["```", ""] if in_code else []
            in_code = False
            entry = re.match(ENTRIES[section], line) if section in ENTRIES else None
            if entry:
                out.append(f"- `{entry[1]}`: {escape(entry[2])}")
            elif line.startswith("- "):
                out.append(f"- {escape(line[2:])}")
            else:
                out.append(("    " if line.startswith(" ") and section else "") + escape(line.strip()))
    out += ["```"] if in_code else []
    out += ["", f"**In RocketMQ:** {escape(in_rocketmq)}"] if in_rocketmq else []
    return "\n".join(out)


def list_errors(docstring: str) -> str:
    """Return a docstring whose section Raises has a line of a list for each error."""

    def list_of(found: re.Match[str]) -> str:
        errors = re.split(NEXT_ERROR, " ".join(found[2].split()))
        return found[1] + "".join(f"- {re.sub(ERROR, name_error, error)}\n" for error in errors)

    return re.sub(r"(^Raises\n-+\n)(.*?)(?=\n\n|\n?\Z)", list_of, docstring, flags=re.DOTALL | re.MULTILINE)


def name_error(found: re.Match[str]) -> str:
    """Return the names before the colon of an error as code."""
    return ", ".join(f"`{name}`" for name in found[1].split(", ")) + ": "


def split_source(docstring: str) -> tuple[str, str]:
    """Return a docstring without the sentence that names RocketMQ's own classes, and this sentence.

    It goes from "Source: " to the end of the paragraph. It is "" if there is none, or if RocketMQ has no such class.
    """
    found = re.search(r"(?:\A|(?<=\s))Source: (.*?)(?=\n\n|\Z)", docstring, re.DOTALL)
    if found is None:
        return docstring, ""
    rest = docstring[: found.start()].rstrip() + docstring[found.end() :]
    return rest, re.sub(r"\Anone[.;:,]? *", "", " ".join(found[1].split()))


def signature_of(value: Any) -> str:
    """Return the parameters of a callable, without self, cls and internal ones. Return "" if it does not show them."""
    try:
        signature = inspect.signature(value)
        shown = [parameter for name, parameter in signature.parameters.items() if not name.startswith("_")]
        text = str(signature.replace(parameters=shown))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"\A\((?:self|cls)(?:, )?", "(", text)
    text = re.sub(r"ForwardRef\('(.*?)'\)", r"\1", text)  # of named tuples
    text = re.sub(r"(: |-> )(['\"])(.*?)\2", r"\1\3", text)  # annotations are strings, and shown in quotes
    return re.sub(r"\brocketstore(\.\w+)+\.(?=\w)", "", text)


def signature_lines(name: str, signature: str) -> str:
    """Return a signature in one line, or with a line for each parameter."""
    if len(name) + len(signature) <= SIGNATURE_WIDTH:
        return f"{name}{signature}"
    depth, parts = 0, [""]
    for index, char in enumerate(signature):
        depth += (char in "([{") - (char in ")]}")
        if depth == 0:  # after the last parameter
            return f"{name}(\n" + "".join(f"    {part.strip()},\n" for part in parts if part) + signature[index:]
        if char == "," and depth == 1:
            parts.append("")
        elif index:
            parts[-1] += char
    raise ValueError(f"{name}{signature}: the brackets do not match")


def docstring_of(value: Any) -> str:
    """Return a docstring without the signature that Cython writes in its first line."""
    text = inspect.getdoc(value) or ""
    return re.sub(r"\A\w[\w.]*\(.*\)(?: -> .*)?\n+", "", text)


def public_members(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the methods and properties of a class that users need and that have a docstring of their own."""
    seen = set(INTERNAL.get(cls.__name__, "").split())
    for base in cls.__mro__:
        if base is object or not base.__module__.startswith("rocketstore"):
            continue
        for name, value in vars(base).items():
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if name.startswith("_") or name in seen or not (callable(inner) or inspect.isdatadescriptor(inner)):
                continue
            seen.add(name)
            if inspect.getdoc(inner):
                yield name, inner


def api_entry(name: str, value: Any) -> str:
    """Return the part of a page about one public name."""
    parts = [f"## {name} {{ #{name} }}\n", source_link(value)]
    is_error = isinstance(value, type) and issubclass(value, Exception)
    signature = "" if is_error else signature_of(value)
    if signature:
        parts.append(f"```python\n{signature_lines(name, signature)}\n```\n")
    parts.append(markdown_of(docstring_of(value)) + "\n")
    for member, inner in public_members(value) if isinstance(value, type) and not is_error else ():
        parameters = signature_of(inner) if callable(inner) else ""
        parts.append(f"### {name}.{member} {{ #{name}.{member} data-toc-label='{member}' }}\n")
        if parameters:
            parts.append(f"```python\n{signature_lines(member, parameters)}\n```\n")
        parts.append(markdown_of(docstring_of(inner)) + "\n")
    return "\n".join(parts)


def task_page(task: Task) -> str:
    """Return the page of one task."""
    package = importlib.import_module("rocketstore")
    entries = [api_entry(name, getattr(package, name)) for name in task.names.split()]
    return "\n".join([f"# {task.title}\n\n{task.summary} [All pages of the API](../python-api.md)\n", *entries])


def overview_page() -> str:
    """Return the page that leads to all public names, each with the first sentence of its docstring."""
    package = importlib.import_module("rocketstore")
    parts = [
        "# Python API\n",
        "Each public name of `rocketstore`, by task. [In Python](python.md) shows how they are used together. "
        "`help(rocketstore.NAME)` has the same text in a terminal. The examples run as tests. They use a store `demo` "
        "with 100 messages of `Orders` and one of `Users`; the public names are imported, and `rocketstore` too.\n",
    ]
    for task in TASKS:
        parts.append(f"## {task.title} {{ #{task.page} }}\n\n{task.summary}\n\n| | |\n| --- | --- |")
        parts += [
            f"| [{name}](api/{task.page}.md#{name}) | {first_sentence(getattr(package, name))} |"
            for name in task.names.split()
        ]
        parts.append("")
    return "\n".join(parts)


def first_sentence(value: Any) -> str:
    """Return the first sentence of a docstring, for a row of a table."""
    paragraph = " ".join(docstring_of(value).partition("\n\n")[0].split())
    return escape(re.split(r"(?<=[.:]) (?=[A-Z`])", paragraph)[0].rstrip(":"))


def write_api_pages(directory: Path) -> None:
    """Write the overview and the page of each task. Exit if a public name has no page."""
    package = importlib.import_module("rocketstore")
    named = [name for task in TASKS for name in task.names.split()]
    if missing := set(package.__all__) - set(named):
        sys.exit(f".ci/api_pages.py: {', '.join(sorted(missing))}: add these public names to a task of TASKS")
    (directory / "python-api.md").write_text(overview_page(), encoding="utf-8")
    (directory / "api").mkdir()
    for task in TASKS:
        (directory / "api" / f"{task.page}.md").write_text(task_page(task), encoding="utf-8")


def write_code_pages(directory: Path) -> None:
    """Write the pages of the code to which the pages of the API lead."""
    package = importlib.import_module("rocketstore")
    write_source_pages(directory, [getattr(package, name) for task in TASKS for name in task.names.split()])
