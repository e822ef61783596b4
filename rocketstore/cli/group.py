"""The group of all commands. It prints each error as one line and sets the exit status."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

import rocketstore as package
from rocketstore.cli import INTERRUPTED, NO_READER, is_of_cli_extra
from rocketstore.cli.text import WORDS
from rocketstore.cli.words_of_other_tools import find_command
from rocketstore.errors import StoreError
from rocketstore.text_values import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETION = """Completion: eval "$(rocketstore completion bash)" in ~/.bashrc; also zsh and fish. Exit status: 0 for \
success; 1 for a problem; 2 for wrong usage; 3 if a condition of --fail-if is met; 130 after Ctrl-C; 141 if the \
program that reads the output ends first."""
HELP: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())  # since click 8.2

COMMANDS = {  # name: text, in the order of --help
    "info": "Summarize a store or index files.",
    "ls": "List topics and queues.",
    "du": "Show what takes the space, and what the disk has left.",
    "expire": "Show which files a broker would delete, or delete them.",
    "lag": "Show how far consumers are behind.",
    "pending": "Show the messages that wait, and until when.",
    "dlq": "Show the messages that consumers could not process.",
    "trace": "Show the life of a message.",
    "offset": "Find the offset of a time.",
    "query": "Find messages by key, tag, id or time.",
    "get": "Show messages of a queue by offset.",
    "cat": "Show the messages of the log.",
    "count": "Count messages by topic, time, tag and so on.",
    "sql": "Answer a SELECT about messages, queues and consumers.",
    "export": "Write messages to a Parquet, Arrow, JSON or CSV file.",
    "import": "Put the messages of a file into a store.",
    "hexdump": "Show a record byte by byte.",
    "verify": "Check a store and show each problem.",
    "diff": "Compare two stores.",
    "copy": "Copy a store, also while a broker writes it.",
    "metrics": "Write numbers of a store for a monitoring system.",
    "report": "Write a page with charts about a store.",
    "recover": "Make a store sound after a crash.",
    "rebuild": "Build queues and index from the log alone.",
    "patch": "Mark lost messages in place, so that all others stay.",
    "salvage": "Copy the sound messages of damaged files into a new store.",
    "convert": "Write a store anew with other sizes or formats.",
    "split": "Write a store of its own for each topic.",
    "bundle": "Write what a bug report needs into one archive.",
    "config": "Check and repair the broker's configuration.",
    "completion": "Print the script that completes words in a shell.",
}


class Commands(click.Group):
    """Commands that print errors as one line. The exit status is 1 for errors of store or system, 2 for wrong usage."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name. Its module is imported when the command is first used."""
        command = super().get_command(ctx, cmd_name)
        if command is None and cmd_name in COMMANDS:
            name = "import_" if cmd_name == "import" else cmd_name  # a keyword of Python
            command = getattr(import_module(f"rocketstore.cli.commands.{name}"), name)
            command.short_help = COMMANDS[cmd_name]
            self.add_command(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list["CompletionItem"]:
        """Complete options and names of commands. The modules of the commands are not imported."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if not ctx.resilient_parsing and args[0] == "help":
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            if len(args) > 2:
                ctx.fail(f"help of which command: {args[1]!r} or {args[2]!r}? Give one")
            args = [args[1], "--help"]
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            similar = find_command(args[0], COMMANDS)
            ctx.fail(f"No such command {args[0]!r}" + (f": did you mean {similar!r}?" if similar else "."))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        words = list(args)  # click removes words from the list
        with errors_in_one_line():
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[WORDS] = words
        return context

    def invoke(self, ctx: click.Context) -> object:
        with errors_in_one_line(ctx):
            log_to_standard_error()
            return super().invoke(ctx)


def log_to_standard_error() -> None:
    """Let Python write the package's warnings to standard error."""
    import logging  # only here, so that --help and completion do not import it

    from rocketstore.logger import logger

    if logging.lastResort is not None:
        logger.addHandler(logging.lastResort)


@contextmanager
def errors_in_one_line(ctx: click.Context | None = None) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise click.exceptions.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes the rest of the output at exit
        raise click.exceptions.Exit(NO_READER) from None
    except HELP:
        raise
    except click.ClickException as error:
        vars(error)["message"] = printable(error.message)
        raise
    except UnicodeEncodeError as error:
        raise click.UsageError(f"an argument is not valid UTF-8: {error.object!r}", ctx) from error
    except (OSError, StoreError, ValueError, ModuleNotFoundError) as error:
        if is_of_cli_extra(error):
            raise  # ``main`` names the extra
        from rocketstore.cli.formats import error_text  # only here, so that --help does not import NumPy

        raise click.ClickException(error_text(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]}, epilog=COMPLETION)
@click.version_option(package.__version__)
def rocketstore() -> None:
    """Read, write, query and recover the files of an Apache RocketMQ store."""
