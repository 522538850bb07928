"""The group of commands; each is imported when it is called."""

from __future__ import annotations

import atexit
import gc
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from backfill_assets.cli.wiring import LAKEHOUSE
from backfill_assets.errors import BackfillError, UnknownVersion
from backfill_assets.settings import LOG_FORMAT, lakehouse_path, logs_as_json, wants_lineage

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Work": {
        "plan": "Show what a rebuild would do, cost and risk.",
        "run": "Build days of tables now, or stage a plan for approval.",
        "diff": "Show what a plan or a timeline would change, day by day.",
        "approve": "Publish what a plan has staged: all tables at once.",
        "rollback": "Undo a publication or a plan: put back what was there before.",
        "close": "Close days: nothing changes them until they are reopened.",
        "reopen": "Reopen days that are closed: what waited for them is built.",
    },
    "Look": {
        "status": "Show which days are fresh, stale or missing.",
        "show": "Show one day of a table: its state and its rows.",
        "sql": "SELECT from all tables at one publication, now or as of then.",
        "history": "List what was published and undone, by whom, newest first.",
        "trace": "Say where a number comes from, from its landed line on.",
        "incident": "List what went wrong by itself, and what is for you.",
        "metrics": "Print figures for Prometheus, or write them to a file.",
    },
    "Timelines": {"timeline": "Try a version, or an earlier state, beside what is published."},
    "What came in": {
        "raw": "Look at rejected rows, corrected files and positions in topics.",
        "stream": "Read events into raw as they come; facts follow.",
    },
    "Set up": {
        "init": "Write a project with datasets of your own.",
        "doctor": "Check this machine, and say what to do.",
        "dataset": "Write the declaration of a dataset, and try it.",
        "adopt": "Take over a Delta table that is there, or give it back.",
        "maintain": "Compact and delete files, give up what is stuck, send notices.",
        "dev": "Serve Dagster's UI, its daemon and one Spark for this project.",
        "spark": "Start, show and stop a Spark server that all runs share.",
        "ui": "Open the page of Dagster's UI about a table, plan or timeline.",
        "docs": "Print a page of the documentation that messages name.",
    },
}
"""Each command's line in ``backfill --help``; its module in ``verbs`` has its name."""
COMMANDS = {name: line for section in SECTIONS.values() for name, line in section.items()}
PUBLISHING = ("run", "approve", "rollback", "timeline", "raw", "stream", "adopt", "maintain")
"""Commands that also send due events of lineage."""
HELP = ["-h", "--help"]
ADDED = "backfill.commands"


class CommandFailed(click.ClickException):
    """An error in red on stderr, or a line of JSON with ``--json``. Exit code 1; a subclass has another if scripts must
    distinguish it.
    """

    usage = ""

    def __init__(self, message: str) -> None:
        from backfill_assets.cli.output import json_was_typed

        super().__init__(message)
        # The context is gone when the error is shown.
        self.as_json = json_was_typed()
        self.is_logged = False

    def show(self, file: Any = None) -> None:
        from backfill_assets.cli.output import say_error, say_error_as_json

        if self.as_json:
            say_error_as_json(self.message, self.exit_code, self.usage)
        elif not self.is_logged:
            say_error(self.message)


class Interrupted(CommandFailed):
    exit_code = 130


class TypedWrong(CommandFailed):
    """A usage error with ``--json``, or an unknown version."""

    exit_code = 2

    def __init__(self, message: str, usage: str = "") -> None:
        super().__init__(message)
        self.usage = usage


class _Lakehouse(click.Path):
    """``Path`` would change a bucket's address."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return lakehouse_path(value) if "://" in str(value) else super().convert(value, param, ctx)


def end_at_once() -> None:
    """Skip garbage collection: it takes 0.2 s of a command, and over 2 s of a daemon."""
    # Handlers run in reverse order: this one after those of later imports.
    atexit.register(gc.freeze)


class CommandGroup(click.Group):
    def main(self, *args: Any, **options: Any) -> Any:
        end_at_once()
        return super().main(*args, **options)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        from backfill_assets.cli.output import remember_typed

        remember_typed(ctx, args)
        with ctx.scope(cleanup=False), errors_as_typed():
            return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return command_names()

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name) if cmd_name in command_names() else None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        named = [CompletionItem(name, help=_line(name)) for name in command_names() if name.startswith(incomplete)]
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
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchCommand as error:
            raise click.NoSuchCommand(error.command_name, possibilities=command_names(), ctx=ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        with logged_command(ctx), errors_as_typed():
            found = super().invoke(ctx)
            if ctx.invoked_subcommand in PUBLISHING and wants_lineage():
                from backfill_assets.cli.output import deliver_lineage, typed_words

                if "--dry-run" not in typed_words(ctx):
                    deliver_lineage(at_once=ctx.invoked_subcommand == "maintain")
            return found


@contextmanager
def logged_command(ctx: click.Context) -> Iterator[None]:
    """With ``--log-format json``, each line names its command. Arguments may be a person's key, and are left out."""
    if not logs_as_json():
        yield
        return
    import logging

    from backfill_assets import clock
    from backfill_assets.cli.output import typed_words
    from backfill_assets.report.json_log import COMMANDS, FIELDS, about

    command = f"backfill {next((word for word in typed_words(ctx) if word in command_names()), '')}".rstrip()
    log, began, code = logging.getLogger(COMMANDS), clock.seconds(), 1
    with about(command=command):
        log.info("%s begins", command)
        try:
            yield
            code = 0
        except click.exceptions.Exit as error:
            code = error.exit_code
            raise
        except CommandFailed as error:
            code = error.exit_code
            error.is_logged = not error.as_json
            if error.is_logged:
                text, _, hint = error.message.partition("\n  -> ")
                log.error(text, extra={FIELDS: {"hint": hint}})
            raise
        finally:
            said = {"seconds": round(clock.seconds() - began, 3), "exit_code": code}
            log.info("%s ended", command, extra={FIELDS: said})


@contextmanager
def errors_as_typed() -> Iterator[None]:
    from backfill_assets.cli.output import AnsweredNo, json_was_typed

    try:
        yield
    except CommandFailed:
        raise
    except (click.UsageError, UnknownVersion) as error:
        if isinstance(error, UnknownVersion) or json_was_typed() or logs_as_json():
            raise _typed_wrong(error) from error
        raise
    except click.Abort as error:
        said_no = isinstance(error, AnsweredNo)
        if json_was_typed() or not said_no:
            click.echo(err=True)  # The question has no line break.
        if said_no:
            raise CommandFailed("The answer was no: nothing was done.") from error
        raise Interrupted("Interrupted at the question: nothing was done.\n  -> Run the same command again.") from error
    except (BackfillError, click.ClickException) as error:
        message = error.message if isinstance(error, click.ClickException) else str(error)
        raise CommandFailed(message) from error


def _typed_wrong(error: click.UsageError | UnknownVersion) -> TypedWrong:
    if isinstance(error, UnknownVersion):
        return TypedWrong(str(error))
    return TypedWrong(error.format_message(), error.ctx.get_usage() if error.ctx else "")


@cache
def _added() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=ADDED)}


def command_names() -> list[str]:
    return [*COMMANDS, *(name for name in _added() if name not in COMMANDS)]


def load_command(name: str) -> click.Command:
    module = import_module(f".verbs.{name}", __package__) if name in COMMANDS else None
    found: click.Command = getattr(module, name) if module else _added()[name].load()
    # Set before click builds the command's help option, which it caches.
    found.context_settings.setdefault("help_option_names", HELP)
    return found


def _line(name: str) -> str:
    return COMMANDS[name] if name in COMMANDS else load_command(name).get_short_help_str(80)


def _note_log_format(ctx: click.Context, param: click.Parameter, value: str) -> None:
    os.environ.pop(LOG_FORMAT, None)
    if value == "json":
        from backfill_assets.report.json_log import install

        os.environ[LOG_FORMAT] = value  # for what this command starts
        install()


def _note_lakehouse(ctx: click.Context, param: click.Parameter, value: Path | None) -> None:
    ctx.meta[LAKEHOUSE] = value


@click.group(
    cls=CommandGroup,
    name="backfill",
    context_settings={"help_option_names": HELP},
)
@click.option(
    "--lakehouse",
    expose_value=False,
    callback=_note_lakehouse,
    type=_Lakehouse(file_okay=False, path_type=Path),
    help="The lakehouse: a folder, or s3://bucket/prefix.  [default: BACKFILL_LAKEHOUSE, or .data/lakehouse]",
)
@click.option(
    "--log-format",
    expose_value=False,
    callback=_note_log_format,
    type=click.Choice(["text", "json"]),
    envvar=LOG_FORMAT,
    default="text",
    help="json: a line of JSON for each step and error.  [default: BACKFILL_LOG_FORMAT, or text]",
)
@click.version_option(package_name="backfill-assets", prog_name="backfill")
def main() -> None:
    """Rebuild history safely: see what is stale, publish atomically, undo.

    \b
    What people ask first:
      which days are stale?        backfill status
      undo what was published      backfill history, then backfill rollback PUBLICATION
      why is a number what it is?  backfill show TABLE DAY, then backfill trace KEY
      try a version beside main    backfill timeline --help
      rebuild history              backfill plan TABLE --days A..B

    Settings come from the environment: backfill docs operations Settings. With --json, an answer is one document on
    standard output; an error is one line of JSON on standard error, with the same exit code.
    """
