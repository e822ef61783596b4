"""``rocketstore completion``: print the script that completes words in a shell."""

import click

from rocketstore.cli.help_groups import GroupedCommand

VARIABLE = "_ROCKETSTORE_COMPLETE"
SHELLS = {
    "bash": "rocketstore completion bash > ~/.local/share/bash-completion/completions/rocketstore",
    "zsh": "rocketstore completion zsh > ~/.zfunc/_rocketstore",
    "fish": "rocketstore completion fish > ~/.config/fish/completions/rocketstore.fish",
}


@click.command(cls=GroupedCommand, epilog="\b\nInstall:\n" + "\n".join(f"  {line}" for line in SHELLS.values()))
@click.argument("shell", type=click.Choice([*SHELLS]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options, columns, and the topics and groups of a store in SHELL.

    Or load it in a running shell: eval "$(rocketstore completion bash)"
    """
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    assert kind is not None
    root = ctx.find_root()
    script = kind(root.command, {}, "rocketstore", VARIABLE)
    click.echo(script.source_template % script.source_vars())
