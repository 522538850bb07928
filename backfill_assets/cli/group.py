"""The group of commands: each is imported when it is called, so that help comes at once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.quick_end import end_at_once
from backfill_assets.errors import BackfillError
from backfill_assets.settings import lakehouse_path

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from click.shell_completion import CompletionItem

SECTIONS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Work": {
        "plan": ("verbs.plan:plan", "Show what a rebuild would do, cost and risk."),
        "run": ("verbs.run:run", "Build a range of days in this process, without a daemon."),
        "diff": ("verbs.diff:diff", "Compare a plan, two states, or what is recomputed."),
        "approve": ("verbs.approve:approve", "Publish what a plan has staged: all tables at once."),
        "rollback": ("verbs.rollback:rollback", "Put back what the days held before a publication."),
    },
    "Look": {
        "status": ("verbs.status:status", "Show which days are fresh, stale or missing."),
        "show": ("verbs.show:show", "Show one day of a table: its state and its rows."),
        "history": ("verbs.history:history", "List publications, newest first."),
        "trace": ("verbs.trace:trace", "Follow one row from its landed line to each report."),
    },
    "Timelines": {"timeline": ("verbs.timeline:timeline", "Work on days of tables beside what is published.")},
    "What came in": {
        "raw": ("verbs.raw:raw", "Rejected rows, files that were corrected, positions of sources."),
        "stream": ("verbs.stream:stream", "Read events into raw as they come; facts follow."),
    },
    "Set up": {
        "init": ("verbs.init:init", "Write a project with datasets of your own."),
        "doctor": ("verbs.doctor:doctor", "Check this machine, and say what to do."),
        "dataset": ("verbs.dataset:dataset", "Try a dataset's declaration on the first landed file."),
        "maintain": ("verbs.maintain:maintain", "Compact and delete files, give up what is stuck, send notices."),
        "dev": ("verbs.dev:dev", "Serve Dagster's UI, its daemon and one Spark for this project."),
        "spark": ("verbs.spark:spark", "Start, show and stop a Spark server that all runs share."),
        "ui": ("verbs.ui:ui", "Open the page of Dagster's UI about a table, plan or timeline."),
    },
}
"""By what people do: where each command is in this package, and its line in ``backfill --help``."""
COMMANDS = {name: found for section in SECTIONS.values() for name, found in section.items()}
ADDED = "backfill.commands"
"""The group of entry points by which other packages add commands."""

_EPILOG = """
\b
Examples:
  backfill status
  backfill plan fact_daily_revenue --days 2017-03-01..2017-05-29
  backfill rollback <publication>

Settings come from the environment: backfill doctor --help lists them.
"""


class CommandFailed(click.ClickException):
    """What went wrong, in red on stderr; the exit code is 1 (2 is for what was typed wrong).

    A subclass has its own exit code if scripts must distinguish it from other errors.
    """

    def show(self, file: Any = None) -> None:
        from backfill_assets.cli.output import say_error

        say_error(self.message)


class Interrupted(CommandFailed):
    """Ctrl-C: what was under way published nothing."""

    exit_code = 130


class _Lakehouse(click.Path):
    """A folder, which click checks; or a bucket's address, which a path would change."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return lakehouse_path(value) if "://" in str(value) else super().convert(value, param, ctx)


class CommandGroup(click.Group):
    """Takes its commands from :data:`COMMANDS`, and turns this project's errors into one clear message."""

    def main(self, *args: Any, **options: Any) -> Any:
        end_at_once()
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from backfill_assets.cli.output import remember_typed

        remember_typed(ctx, args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _with_link(load_command(cmd_name)) if cmd_name in COMMANDS or cmd_name in _added() else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from backfill_assets.cli.completion import complete_command

        named = complete_command(incomplete, ((name, _line(name)) for name in command_names()))
        return [*named, *(click.Command.shell_complete(self, ctx, incomplete) if incomplete.startswith("-") else [])]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections = {**SECTIONS, "More": [name for name in command_names() if name not in COMMANDS]}
        widest = max(map(len, command_names()))
        for title, names in sections.items():
            if names:
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(widest), _line(name)) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not ctx.resilient_parsing:
            _refuse_unknown(ctx, args[0])
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except (click.UsageError, CommandFailed):
            raise
        except (BackfillError, click.ClickException) as error:
            message = error.message if isinstance(error, click.ClickException) else str(error)
            raise CommandFailed(message) from error


@cache
def _added() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ADDED)}


def command_names() -> list[str]:
    """The commands of this package by what people do, and those that others add."""
    return [*COMMANDS, *(name for name in _added() if name not in COMMANDS)]


def load_command(name: str) -> click.Command:
    """Import the command ``name``, which is one of :func:`command_names`."""
    if name in COMMANDS:
        module, _, attribute = COMMANDS[name][0].partition(":")
        found: click.Command = getattr(import_module(f".{module}", __package__), attribute)
    else:
        found = _added()[name].load()
    return found


def _line(name: str) -> str:
    """The line of a command in the overview. Those of this package are not imported for it."""
    return COMMANDS[name][1] if name in COMMANDS else load_command(name).get_short_help_str(80)


def _with_link(command: click.Command) -> click.Command:
    """The command, which ends with the address of the page that it is about if a UI runs and a person reads."""
    linked, run = copy(command), command.invoke

    def invoke(ctx: click.Context) -> Any:
        try:
            result = run(ctx)
        except click.exceptions.Exit:
            _say_link(ctx)
            raise
        _say_link(ctx)
        return result

    linked.invoke = invoke  # type: ignore[method-assign]
    return linked


def _say_link(ctx: click.Context) -> None:
    from backfill_assets.cli.output import printed_json, say_hint, screen

    if not screen() or printed_json():
        return
    from backfill_assets.cli.running_dev import running_ui
    from backfill_assets.cli.wiring import current_settings

    if address := running_ui(current_settings()):
        from backfill_assets.cli.pages import page_of

        if page := page_of(ctx.info_name or "", ctx.params):
            say_hint(f"{address}{page}")


def _refuse_unknown(ctx: click.Context, name: str) -> None:
    from backfill_assets.text import suggest_name

    if name not in COMMANDS and not name.startswith("-") and name not in _added():
        raise click.UsageError(f"There is no command {name!r}. {suggest_name(name, command_names())}".rstrip(), ctx)


@click.group(
    cls=CommandGroup,
    name="backfill",
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--lakehouse",
    type=_Lakehouse(file_okay=False, path_type=Path),
    help="The lakehouse: a folder, or s3://bucket/prefix.  [default: BACKFILL_LAKEHOUSE, or .data/lakehouse]",
)
@click.version_option(package_name="backfill-assets", prog_name="backfill")
@click.pass_context
def main(ctx: click.Context, lakehouse: Path | None) -> None:
    """Rebuild history safely: see what is stale, publish atomically, undo."""
    ctx.obj = lakehouse
