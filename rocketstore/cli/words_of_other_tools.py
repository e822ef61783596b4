"""Other tools' words for commands, options and formats, and what to type in their place."""

import re
from collections.abc import Collection, Sequence

from rocketstore.text_values import find_similar

COMMANDS = {  # other words for a command, also those of mqadmin and kcat, in lower case without hyphens
    "browse": "cat",
    "find": "query",
    "search": "query",
    "lookup": "query",
    "grep": "cat --grep",
    "filter": "cat --where",
    "where": "cat --where",
    "select": "sql",
    "head": "cat --limit 10",
    "tail": "cat --tail 10",
    "last": "cat --tail 10",
    "first": "cat --limit 10",
    "show": "cat",
    "print": "cat",
    "dump": "cat",
    "read": "cat",
    "view": "cat",
    "messages": "cat",
    "topics": "ls",
    "queues": "ls",
    "partitions": "ls",
    "list": "ls",
    "describe": "info",
    "schema": "info",
    "status": "info",
    "groups": "lag",
    "consumers": "lag",
    "progress": "lag",
    "deadletters": "dlq",
    "delayed": "pending",
    "scheduled": "pending",
    "check": "verify",
    "fsck": "verify",
    "doctor": "verify",
    "validate": "verify",
    "checksum": "verify",
    "repair": "recover",
    "fix": "recover",
    "index": "rebuild --index",
    "reindex": "rebuild --index",
    "compare": "diff",
    "backup": "copy",
    "cp": "copy",
    "clone": "copy",
    "snapshot": "copy",
    "stats": "info",
    "size": "du",
    "df": "du --disks",
    "wc": "count",
    "clean": "expire",
    "cleanup": "expire",
    "purge": "expire",
    "delete": "expire",
    "prune": "expire",
    "put": "import",
    "produce": "import",
    "send": "import",
    "write": "import",
    "load": "import",
    "append": "import",
    "save": "export",
    "extract": "export",
    "toparquet": "export",
    "tocsv": "export",
    "parquet": "export",
    "migrate": "convert",
    "html": "report",
    "dashboard": "report",
    "serve": "report",
    "monitor": "metrics",
    "prometheus": "metrics",
    "hex": "hexdump",
    "xxd": "hexdump",
    "inspect": "hexdump",
    "duckdb": "sql",
    "shell": "sql",
    "redrive": "import --topic-map",
    "resend": "import --topic-map",
    "replay": "import --topic-map",
    "history": "trace",
    "querymsgbyid": "query --id",
    "querymsgbykey": "query --key",
    "querymsgbyuniquekey": "query --unique-key",
    "querymsgbyoffset": "get",
    "querymsgtracebyid": "trace --id",
    "topiclist": "ls",
    "topicstatus": "ls --topic",
    "consumerprogress": "lag",
    "brokerstatus": "info",
    "man": "help",
    "usage": "help",
    "version": "--version",
    "printmsg": "cat",
    "printmsgbyqueue": "cat --queue",
    "consumemessage": "cat",
    "dumpcompactionlog": "cat --compacted",
    "consume": "cat --follow",
    "follow": "cat --follow",
    "watch": "cat --follow",
    "sample": "cat --sample 1%",
}  # fmt: skip

# An option, perhaps with a value, and the words of other tools for it. A command gets the first that it has.
OPTIONS = (
    ("--apply", "--delete --do --execute --force --no-dry-run --run --yes -y"),
    ("--begin-offset", "--offset --start-offset -o"),
    ("--before", "--older-than"),
    ("--by", "--group-by --groupby"),
    ("--charset", "--encoding"),
    ("--columns", "--column --field --fields --select -c"),
    ("--consume-queue", "--queues"),
    ("--disks", "--disk --free"),
    ("--follow", "--live --stream --watch"),
    ("--force", "--overwrite --replace -f -y"),
    ("--format csv", "--csv"),
    ("--format json", "--json --jsonl --ndjson -J"),
    ("--format table", "--pretty --table"),
    ("--format", "--output-format --type"),
    ("--full", "--all --no-trunc --verbose --wide -a -v"),
    ("--grep", "--body --contains --match --search -e"),
    ("--group", "--consumer --consumer-group --consumergroup -g"),
    ("--id", "--message-id --messageid --msg-id --msgid -i"),
    ("--json-body", "--body-json --parse-json"),
    ("--key", "--message-key -k"),
    ("--limit", "--count --first --head --max --max-num --max-rows --num --rows -l -n"),
    ("--new-slots", "--slots"),
    ("--out", "--destination --dst --output --target --to -o"),
    ("--output", "--file --html --out --target"),
    ("--partition-by", "--partition --partitions"),
    ("--queue", "--partition --queue-id --queueid -p -q"),
    ("--quick", "--fast"),
    ("--sample 1%", "--random"),
    ("--since", "--after --begin --begin-time --from --from-time --newer-than --start --start-time -b -s"),
    ("--skip-damaged", "--ignore-errors --on-corrupt"),
    ("--state", "--append --incremental --new --since-last --update"),
    ("--tail", "--last"),
    ("--tag", "--subexpression"),
    ("--template", "--print --printf"),
    ("--time", "--at --since --timestamp -t"),
    ("--topic", "--subscribe -t"),
    ("--tz local", "--local --localtime"),
    ("--tz", "--time-zone --timezone --zone"),
    ("--unique-key", "--client-id --uniq-key --uniqkey --uuid"),
    ("--until", "--before --end --end-time --stop --to"),
    ("--where", "--condition --filter --query --sql -w"),
)  # fmt: skip

SEPARATED = "rocketstore cat STORE --template '{topic};{keys};{body}' > FILE"
# Lines to type in place of a command with an option that it does not have.
LINES = (
    ("cat query get", "--count", "rocketstore count STORE"),
    ("cat query get", "--out --output -o", "rocketstore export STORE TARGET"),
    ("cat query get", "--parquet", "rocketstore export STORE TARGET.parquet"),
    ("cat export", "--delimiter --field-separator --sep --separator -d", SEPARATED),
    ("cat count export query", "--duplicates --distinct", "rocketstore sql STORE 'SELECT DISTINCT keys FROM messages'"),
    ("cat count export", "--sort --order-by", "rocketstore sql STORE 'SELECT * FROM messages ORDER BY storeTimestamp'"),
    ("cat", "--desc --newest --reverse -r", "rocketstore cat STORE --tail 10"),
    ("copy", "--force --overwrite --incremental", "rocketstore copy STORE NEW with a NEW that is missing or empty"),
    ("convert", "--out --output --target --to -o", "rocketstore convert STORE NEW"),
    ("copy", "--out --output --target --to -o", "rocketstore copy STORE NEW"),
    ("split", "--out --output --target --to -o", "rocketstore split STORE NEW"),
    ("import", "--out --output --store --target -o", "rocketstore import SOURCE STORE"),
    ("du ls", "--sort --topics", "rocketstore du STORE --by topic"),
    ("export", "--file --out --output --target -o", "rocketstore export STORE TARGET"),
    ("export", "--pretty --table", "rocketstore cat STORE --format table"),
    ("get", "--offset --queue --topic -q -t", "rocketstore get STORE TOPIC QUEUE OFFSET"),
    ("info", "--topic --topics -t", "rocketstore ls STORE --topic TOPIC"),
    ("lag", "--by --sort", "rocketstore lag STORE --totals"),
    ("lag", "--topic -t", "rocketstore sql STORE \"SELECT * FROM lag WHERE topic = 'TOPIC'\""),
    ("ls", "--group -g", "rocketstore lag STORE --group GROUP"),
    ("ls", "--queue -q", "rocketstore ls STORE --topic TOPIC"),
    ("query", "--offset --queue -q", "rocketstore get STORE TOPIC QUEUE OFFSET"),
    ("recover", "--backup", "rocketstore copy STORE NEW"),
    ("rebuild", "--dry-run -n", "rocketstore rebuild STORE --out NEW"),
    ("report", "--open", "rocketstore report STORE --output report.html"),
    ("verify", "--fix --mend --recover --repair", "rocketstore recover STORE"),
)  # fmt: skip

FORMATS = {  # other words for a format
    "jsonl": "json",
    "ndjson": "json",
    "jsonlines": "json",
    "json-lines": "json",
    "pretty": "table",
    "text": "table",
    "tsv": "csv",
    "excel": "csv-safe",
    "xlsx": "csv-safe",
    "xls": "csv-safe",
    "pq": "parquet",
    "feather": "arrow",
    "ipc": "arrow",
}

OF_FILES = ("parquet", "arrow")  # formats that only export writes

# What to do for a file that export does not write, by the end of its name.
FILES = {
    ".db": "rocketstore cat STORE | sqlite-utils insert FILE messages - --nl",
    ".duckdb": "rocketstore export STORE out.parquet, which DuckDB reads",
    ".sqlite": "rocketstore cat STORE | sqlite-utils insert FILE messages - --nl",
    ".txt": "rocketstore cat STORE --template '{topic} {keys} {body}' > FILE",
    ".xls": "rocketstore export STORE out.csv --format csv-safe, which spreadsheets open",
    ".xlsx": "rocketstore export STORE out.csv --format csv-safe, which spreadsheets open",
}

# Complete lines of commands that a user often types with a word too many.
EXAMPLES = {
    "completion": "rocketstore completion bash",
    "diff": "rocketstore diff A B",
    "get": "rocketstore get STORE TOPIC QUEUE OFFSET --limit 10",
    "import": "rocketstore import SOURCE STORE",
    "offset": "rocketstore offset STORE --topic TOPIC --time 1h",
    "recover": "rocketstore recover STORE --dry-run",
    "verify": "rocketstore verify STORE",
}


def find_command(name: str, known: Collection[str]) -> str | None:
    """Return the command, perhaps with options, that an unknown one probably means; None if no name is near."""
    return COMMANDS.get(re.sub("[-_]", "", name).casefold()) or find_similar(name, known)


def find_option(command: str, option: str, known: Sequence[str]) -> str | None:
    """Return the option that an unknown one probably means, or a line to type; None if it may mean anything.

    Parameters: command: its name. option: with its hyphens. known: the options of the command.
    """
    for commands, words, line in LINES:
        if command in commands.split() and option in words.split():
            return line
    plain = option.replace("_", "-").casefold()
    for near in (plain, plain.removesuffix("s"), f"{plain}s"):
        if near in known:
            return near
    for meant, words in OPTIONS:
        if option in words.split() and meant.split()[0] in known:
            return meant
    similar = find_similar(option.strip("-"), [name.strip("-") for name in known if name.startswith("--")])
    return None if similar is None else f"--{similar}"


def find_format(name: str, choices: Sequence[str]) -> str | None:
    """Return the format that an unknown one probably means, or a line to type; None if no format is near."""
    meant = FORMATS.get(name.casefold(), name.casefold())
    if meant in choices:
        return meant
    return f"rocketstore export STORE TARGET.{meant}" if meant in OF_FILES else find_similar(name, choices)
