"""The groups in which ``--help`` lists the options of a command, the most used options of a group first."""

import click

from rocketstore.cli.wrong_usage import missing_parameter, unknown_option, words_too_many

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
LEAST = 6  # options; a command with fewer has one group
GROUPS = {"Select": SELECT, "Options": (), "Output": OUTPUT, "Store": STORE}
GROUP_OF = {option: title for title, options in GROUPS.items() for option in options}
ORDER = {option: number for options in GROUPS.values() for number, option in enumerate(options)}


class GroupedCommand(click.Command):
    """A command whose help has its options in groups, and whose errors of usage have the line to type.

    Options of no group are in the group Options.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line. An error names what an unknown option or a word too many probably means."""
        typed = list(args)  # click removes words from the list
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise unknown_option(self, ctx, error, typed) from None
        except click.BadParameter as error:
            if isinstance(error, click.MissingParameter):
                raise missing_parameter(self, ctx, error, typed) from None
            raise
        except click.UsageError as error:
            raise words_too_many(self, ctx, typed) or error from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[int, tuple[str, str]]]] = {title: [] for title in GROUPS}
        *params, help_option = self.get_params(ctx)
        options = [param for param in params if isinstance(param, click.Option)]  # arguments are in the usage line
        for param in options:
            record = param.get_help_record(ctx)
            if record is not None:
                name = max(param.opts, key=len)
                title = GROUP_OF.get(name, "Options") if len(options) >= LEAST else "Options"
                groups[title].append((ORDER.get(name, len(ORDER)), record))
        shown = [title for title, found in groups.items() if found] or ["Options"]
        groups[shown[-1]].append((len(ORDER), help_option.get_help_record(ctx) or ("", "")))
        for title in shown:
            with formatter.section(title):
                formatter.write_dl([record for _, record in sorted(groups[title], key=lambda each: each[0])])
