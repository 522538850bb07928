"""What commands print, ask and send; with ``--json`` one document on standard output."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.text import Text

from backfill_assets.report.answer import NOT_DONE, Answer
from backfill_assets.settings import logs_as_json
from backfill_assets.text import escape_controls

if TYPE_CHECKING:
    from backfill_assets.publish.delivery import NoticeDelivery, Routed
    from backfill_assets.publish.publisher import Publisher
    from backfill_assets.settings import Settings

_PIPED_WIDTH = 200
_PATIENCE_SECONDS = 2.0
_TYPED, JSON, LONG = "backfill_assets.typed", "backfill_assets.json", "backfill_assets.long"


def console(*, stderr: bool = False) -> Console:
    stream = sys.stderr if stderr else sys.stdout
    return Console(
        stderr=stderr,
        highlight=False,
        markup=False,
        emoji=False,
        width=None if stream.isatty() else _PIPED_WIDTH,
    )


def say_answer(answer: Answer, *, as_markdown: bool = False, brief: bool = False) -> None:
    """Print for a terminal, tab-separated on a pipe, as JSON or as Markdown.

    A terminal has a short form if ``brief``, or without a ``--long`` that the command has.
    """
    from backfill_assets.cli.ids import all_ids
    from backfill_assets.report.terminal import Terminal

    if wants_json():
        say_json(answer.as_json())
        return
    if as_markdown:
        from backfill_assets.report.markdown import markdown

        click.echo(markdown(answer), nl=False)
        return
    show = all_ids() if screen() else str
    Terminal(console(), screen(), show, _has_json()).say(answer, long=not brief and _is_asked(LONG, otherwise=True))


def go_on(plan: Answer, question: str = "", *, dry_run: bool, yes: bool = True) -> bool:
    """Show the plan, ask unless ``yes``; whether to do it. With ``--json`` only a dry run prints it."""
    if dry_run:
        say_answer(replace(plan, parts=(*plan.parts, NOT_DONE)))
        return False
    if not wants_json():
        say_answer(plan)
    if not yes:
        ask(question)
    return True


def say_done(plan: Answer, done: Answer) -> None:
    say_answer(replace(done, parts=(*plan.parts, *done.parts)) if wants_json() else done)


def say(*lines: str, style: str = "") -> None:
    """Control characters are escaped: no data moves a cursor."""
    for line in lines:
        console().print(Text(escape_controls(line), style), soft_wrap=True)


def say_lines(text: str) -> None:
    say(*text.split("\n"))


@contextmanager
def awaited(what: str) -> Iterator[None]:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn("line"), TextColumn("{task.description}"), TimeElapsedColumn())
    is_quiet = not sys.stderr.isatty() or logs_as_json()
    shown = Progress(*columns, console=console(stderr=True), transient=True, disable=is_quiet)
    shown.add_task(f"{what} ...")
    begins = threading.Timer(_PATIENCE_SECONDS, shown.start)
    begins.daemon = True
    begins.start()
    try:
        yield
    finally:
        begins.cancel()
        begins.join()
        shown.stop()


def screen() -> bool:
    return sys.stdout.isatty()


def _has_json() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and any("--json" in option.opts for option in context.command.params)


def say_error(message: str) -> None:
    lines = "\n".join(escape_controls(line) for line in message.split("\n"))
    console(stderr=True).print(Text.assemble(("Error: ", "bold red"), (lines, "red")), soft_wrap=True)


def say_error_as_json(message: str, exit_code: int, usage: str = "") -> None:
    """One line on stderr, with ``error``, ``hint``, ``usage`` and ``exit_code``."""
    text, _, hint = message.partition("\n  -> ")
    found = {"error": text, "hint": hint, "usage": usage, "exit_code": exit_code}
    click.echo(json.dumps({name: value for name, value in found.items() if value}), err=True)


def json_was_typed() -> bool:
    context = click.get_current_context(silent=True)
    return bool(context and "--json" in typed_words(context))


def say_json(value: Any) -> None:
    """Dates as ISO text, exact decimals as text."""
    click.echo(json.dumps(value, indent=2, default=_as_text))


def wants_json() -> bool:
    return _is_asked(JSON)


def _is_asked(option: str, *, otherwise: bool = False) -> bool:
    context = click.get_current_context(silent=True)
    return bool(context.meta.get(option, otherwise)) if context else otherwise


def ask(question: str) -> None:
    """Raises :class:`AnsweredNo`, or ``UsageError`` without a terminal."""
    if not on_terminal():
        raise click.UsageError(f"There is no terminal to ask on: add --yes. Type: {typed_command()} --yes")
    if not click.confirm(question, err=True):
        raise AnsweredNo


class AnsweredNo(click.Abort):
    """A person said no; :class:`click.Abort` itself is Ctrl-C at the question."""


def remember_typed(context: click.Context, arguments: Sequence[str]) -> None:
    context.meta[_TYPED] = tuple(arguments)


def typed_words(context: click.Context) -> Sequence[str]:
    found: Sequence[str] = context.meta.get(_TYPED, ())
    return found


def typed_command() -> str:
    context = click.get_current_context(silent=True)
    return shlex.join(["backfill", *(typed_words(context) if context else ())])


def on_terminal() -> bool:
    return sys.stdin.isatty()


def _as_text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


# ------------------------------------------------------------------ notices


def deliver_notices(settings: Settings, publisher: Publisher, *, at_once: bool = False) -> NoticeDelivery:
    """Send due notices and print the outcome; no failure is raised. ``at_once`` also tries paused routes."""
    from backfill_assets.answers.maintenance import delivery_answer
    from backfill_assets.publish.delivery import deliver

    found = deliver(publisher, notice_sender(settings), at_once=at_once)
    if not wants_json() and (found.sent or found.failed or found.waiting):
        say_answer(delivery_answer(found, settings.notices))
    return found


def deliver_lineage(*, at_once: bool) -> None:
    """Send due events of publications; a failure is one line on stderr."""
    from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher
    from backfill_assets.publish.lineage_outbox import send_lineage

    found = send_lineage(open_publisher(), current_settings(), current_catalog, at_once=at_once)
    if words := str(found):
        click.echo(escape_controls(words), err=True)


def notice_sender(settings: Settings) -> Routed:
    from backfill_assets.publish.senders import sender_of

    return sender_of(settings.notices, _print_beside_json if wants_json() else say_lines)


def _print_beside_json(message: str) -> None:
    for line in message.split("\n"):
        click.echo(escape_controls(line), err=True)
