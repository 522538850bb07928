"""The group of commands: each is imported when it is called, so that help comes at once."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from backfill_assets.cli.quick_end import end_at_once
from backfill_assets.errors import BackfillError
from backfill_assets.settings import lakehouse_path

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

    from click.shell_completion import CompletionItem

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "approve": (
            "commands.campaign:approve",
            "Publish what a plan has staged: all tables at once.",
        ),
        "campaign": ("commands.campaign:campaign", "Show how far a plan has been carried out."),
        "dataset": ("verbs.dataset:dataset", "Try a dataset's declaration on the first landed file."),
        "diff": (
            "queries.diff:diff",
            "Compare a plan, or any two states, row by row.",
        ),
        "doctor": ("verbs.doctor:doctor", "Check this machine, and say what to do."),
        "forward": (
            "commands.rewind:forward",
            "Compute the days of a timeline again.",
        ),
        "history": ("verbs.history:history", "List publications, newest first."),
        "init": ("verbs.init:init", "Write a project with datasets of your own."),
        "maintain": ("verbs.maintain:maintain", "Compact and delete files, give up what is stuck, send notices."),
        "open": (
            "queries.open_timeline:open_command",
            "Show how to read a timeline: Spark SQL, DuckDB, pyarrow.",
        ),
        "plan": (
            "queries.plan:plan",
            "Show what a rebuild would do, cost and risk.",
        ),
        "publish": (
            "commands.publish:publish",
            "Bring a timeline into main, as a plan does.",
        ),
        "raw": ("verbs.raw:raw", "What came in: rejected rows, corrected files, positions."),
        "reproduce": (
            "queries.reproduce:reproduce",
            "Stage a publication again and compare checksums.",
        ),
        "rewind": (
            "commands.rewind:rewind",
            "Make a timeline of days as they were at a moment.",
        ),
        "rollback": (
            "commands.rollback:rollback",
            "Put back what the days held before a publication.",
        ),
        "run": ("commands.run:run", "Build a range of days in this process, without a daemon."),
        "show": ("verbs.show:show", "Show one day of a table: its state and its rows."),
        "spark": ("commands.spark:spark", "Start, show and stop a Spark server that all runs share."),
        "standby": ("commands.standby:standby", "Keep another version of a step ready beside the current one."),
        "status": ("verbs.status:status", "Show which days are fresh, stale or missing."),
        "stream": ("verbs.stream:stream", "Read events into raw as they come; facts follow."),
        "switch": ("commands.switch:switch", "Make another version of a step the current one."),
        "timeline": (
            "commands.timeline:timeline",
            "List, show, rename and delete timelines.",
        ),
        "ui": ("queries.ui:ui", "Open the page of Dagster's UI about a table, plan or timeline."),
        "trace": ("verbs.trace:trace", "Follow one row from its landed line to each report."),
        "versions": ("queries.versions:versions", "List the versions of steps: current, and on standby."),
    }
)
"""Where each command is in this package, and its line in ``backfill --help``."""
ADDED = "backfill.commands"
"""The group of entry points by which other packages add commands."""

_EPILOG = """
\b
Examples:
  backfill doctor
  backfill status fact_daily_revenue --days 2017-03-01..2017-05-29
  backfill history --limit 5
  backfill rollback <publication>

\b
Settings come from the environment:
  BACKFILL_DATASETS   the package that declares the datasets    [default: pyproject.toml of this folder]
  BACKFILL_HOME       where everything is kept    [default: .data]
  BACKFILL_LAKEHOUSE  the lakehouse               [default: <home>/lakehouse]
  BACKFILL_LANDING    the landing zone            [default: <home>/landing]
  BACKFILL_CORE_HOUR_PRICE   price of a core for an hour, for plans    [default: no price]
  BACKFILL_TIMELINE_DAYS     days until an abandoned timeline is closed    [default: 14]
  BACKFILL_APPROVAL_BY       who may approve: anyone, another-person or listed    [default: anyone]
  BACKFILL_DIRTY_TREE  refuse: publish only with committed code    [default: allow]
  BACKFILL_NOTICES    where notices go: log, file:PATH or webhook:URL    [default: log]
  BACKFILL_SHARED_SPARK  never: not the Spark of a running `make dev`    [default: use]
  BACKFILL_UI         Dagster's UI, if `make dev` did not start it
  SPARK_REMOTE        a Spark Connect server      [default: Spark runs inside the process]
  NO_COLOR            no colours
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

        named = complete_command(incomplete, _lines())
        return [*named, *(click.Command.shell_complete(self, ctx, incomplete) if incomplete.startswith("-") else [])]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(_lines())

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
    """The commands of this package and those that others add."""
    return sorted({*COMMANDS, *_added()})


def load_command(name: str) -> click.Command:
    """Import the command ``name``, which is one of :func:`command_names`."""
    if name in COMMANDS:
        module, _, attribute = COMMANDS[name][0].partition(":")
        found: click.Command = getattr(import_module(f".{module}", __package__), attribute)
    else:
        found = _added()[name].load()
    return found


def _lines() -> list[tuple[str, str]]:
    """Each command and its line in the overview. Those of this package are not imported for it."""
    return [
        (name, COMMANDS[name][1] if name in COMMANDS else load_command(name).get_short_help_str(80))
        for name in command_names()
    ]


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
