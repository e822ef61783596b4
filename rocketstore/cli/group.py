"""The group of all commands, and what an error of the store looks like on a terminal."""

import click

import rocketstore as package
from rocketstore.cli.demo import demo
from rocketstore.cli.formats import error_text
from rocketstore.cli.info import info
from rocketstore.cli.query import query
from rocketstore.errors import StoreError

__all__ = ["rocketstore"]

INTERRUPTED = 130  # what shells give for a process that SIGINT ended


class Commands(click.Group):
    """Commands whose errors are one line: exit status 1 for the store's and the system's, 2 for usage."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise click.exceptions.Exit(INTERRUPTED) from None
        except BrokenPipeError:  # click ends silently
            raise
        except (OSError, StoreError) as error:
            raise click.ClickException(error_text(error)) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package.__version__)
def rocketstore() -> None:
    """Read, query and build the files of an Apache RocketMQ store."""


for command in (info, query, demo):
    rocketstore.add_command(command)
