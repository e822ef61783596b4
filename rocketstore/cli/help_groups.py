"""The groups in which ``--help`` lists the options of a command, the most used options of a group first."""

import click

SELECT = (
    "--topic", "--key", "--tag", "--since", "--until", "--limit", "--unique-key", "--id", "--group", "--queue",
    "--where", "--grep", "--regex", "--follow", "--tail", "--sample", "--dlq", "--unconsumed", "--subscribe", "--from",
    "--begin-offset", "--end-offset", "--exact-times", "--verify-crc", "--deleted",
)  # fmt: skip
OUTPUT = (
    "--format", "--columns", "--full", "--template", "--raw", "--json-body", "--decode", "--tz", "--iso", "--charset",
    "--containers", "--raw-body", "--fail-if", "--state", "--partition-by", "--compression", "--redact", "--hash",
    "--hash-key", "--resume", "--force",
)  # fmt: skip
STORE = (
    "--broker-conf", "--compat", "--slots", "--items", "--log-file-size", "--tiered", "--tier", "--compacted",
    "--leftovers", "--remote-copy-limit",
)  # fmt: skip
LEAST = 8  # options; a command with fewer has one group
GROUPS = {"Select": SELECT, "Options": (), "Output": OUTPUT, "Store": STORE}
GROUP_OF = {option: title for title, options in GROUPS.items() for option in options}
ORDER = {option: number for options in GROUPS.values() for number, option in enumerate(options)}


# Names that other tools have for an option, and the option of this command.
OTHER_WORDS = {
    "--begin": "--since",
    "--count": "--limit",
    "--end": "--until",
    "--fields": "--columns",
    "--filter": "--where",
    "--incremental": "--state",
    "--json": "--format",
    "--local": "--tz local",
    "--max": "--limit",
    "--new": "--state",
    "--output": "--format",
    "--print": "--template",
    "--since-last": "--state",
    "--start": "--since",
    "--timezone": "--tz",
}

# Commands to type in place of a command with an option that it does not have.
OTHER_COMMANDS = {
    ("cat", "--count"): "rocketstore count STORE",
    ("du", "--topics"): "rocketstore du STORE --by topic",
    ("lag", "--sort"): "rocketstore lag STORE --totals",
    ("ls", "--sort"): "rocketstore du STORE --by topic",
    ("ls", "--topics"): "rocketstore du STORE --by topic",
}


class GroupedCommand(click.Command):
    """A command whose help has its options in groups. Options of no group are in the group Options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. An error of an unknown option names the option that is probably meant."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            meant = self.find_meant(error.option_name)
            if meant is None:
                raise
            raise click.UsageError(f"No such option {error.option_name!r}. (Did you mean {meant!r}?)", ctx) from None

    def find_meant(self, option: str) -> str | None:
        """Return the option, or the command, that an unknown option probably means; None if it may mean anything."""
        command = OTHER_COMMANDS.get((self.name or "", option))
        if command is not None:
            return command
        meant = OTHER_WORDS.get(option)
        has_it = meant is not None and any(meant.split()[0] in param.opts for param in self.params)
        return meant if has_it else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[int, tuple[str, str]]]] = {title: [] for title in GROUPS}
        *params, help_option = self.get_params(ctx)
        for param in params:
            record = param.get_help_record(ctx)
            if record is not None:
                name = max(param.opts, key=len)
                title = GROUP_OF.get(name, "Options") if len(params) >= LEAST else "Options"
                groups[title].append((ORDER.get(name, len(ORDER)), record))
        shown = [title for title, found in groups.items() if found] or ["Options"]
        groups[shown[-1]].append((len(ORDER), help_option.get_help_record(ctx) or ("", "")))
        for title in shown:
            with formatter.section(title):
                formatter.write_dl([record for _, record in sorted(groups[title], key=lambda each: each[0])])
