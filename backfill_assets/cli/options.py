"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any, Generic, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from backfill_assets.cli import ids
from backfill_assets.cli.completion import (
    Offer,
    complete_days,
    complete_expectation,
    complete_publication,
    complete_state,
    complete_table,
    complete_timeline,
    complete_version,
)
from backfill_assets.cli.output import JSON, LONG
from backfill_assets.cli.wiring import open_storage
from backfill_assets.days import DayRange, parse_day

Value = TypeVar("Value")
Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


class _Typed(click.ParamType[Value], Generic[Value]):
    def __init__(self, name: str, offer: Offer, read: Callable[[str], Value]) -> None:
        self.name, self._offer, self._read = name, offer, read

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Value:
        found: Value = self._read(value) if isinstance(value, str) else value
        return found

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        return self._offer(ctx, param, incomplete)


def _by(find: Callable[..., str], **how: bool) -> Callable[[str], str]:
    return lambda text: find(open_storage(), text, **how)


def _one_table(text: str) -> str:
    from backfill_assets.cli.selections import one_table

    return one_table(text)


DAYS = _Typed("A..B", complete_days, DayRange.parse)
MONTH = _Typed("YYYY-MM", complete_days, DayRange.of_months)
DAY = _Typed("YYYY-MM-DD", complete_days, parse_day)
TABLE = _Typed("TABLE", complete_table, _one_table)
TIMELINE = _Typed("NAME", complete_timeline, _by(ids.find_timeline))
TIMELINE_TO_CHANGE = _Typed("NAME", complete_timeline, _by(ids.find_timeline, change=True))
PUBLICATION = _Typed("PUBLICATION", complete_publication, _by(ids.find_publication))
MOMENT = _Typed("MOMENT", complete_publication, _by(ids.find_moment))
STATE = _Typed("MOMENT", complete_state, _by(ids.find_state))


def _note_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[JSON] = value


def _note_long(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    ctx.meta[LONG] = value


def personal_value(key: str) -> str | None:
    """Asks for the value that ``@`` stands for in ``key``, as ``a/@/b``; None if nothing is personal there. It is in no
    history of a shell, and not shown.
    """
    from backfill_assets.landing.trace import BETWEEN, PERSONAL

    if PERSONAL not in key.split(BETWEEN):
        return None
    value: str = click.prompt("Personal value", hide_input=True, err=True)
    return value


def days(text: str) -> Decorator[Any]:
    return click.option("--days", type=DAYS, help=text)


def refuse(context: click.Context, given: Container[str], why: str) -> None:
    """Raise ``UsageError`` for a parameter in ``given`` that was typed."""
    for each in context.command.params:
        typed = context.get_parameter_source(each.name or "") is not ParameterSource.DEFAULT
        if typed and each.name in given:
            name = each.opts[0] if isinstance(each, click.Option) else each.make_metavar(context).strip("[]")
            raise click.UsageError(f"{name} cannot be given {why}.")


day = click.argument("day", type=DAY, metavar="DAY")
as_json = click.option("--json", is_flag=True, expose_value=False, callback=_note_json, help="Print JSON.")
long = click.option(
    "--long",
    is_flag=True,
    expose_value=False,
    callback=_note_long,
    help="Show all of it on a terminal. A pipe and --json get all of it anyway.",
)
dry_run = click.option("--dry-run", is_flag=True, help="Show what would be done, and do nothing.")
yes = click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
newest_first = click.option(
    "--newest-first", is_flag=True, help="Compute the newest days first, as far as those that they look back to allow."
)
table = click.argument("table", type=TABLE)
on_timeline = click.option("--on", type=TIMELINE, help="On this timeline.  [default: main]")
expect = click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="TEXT",
    shell_complete=complete_expectation,
    help='Expect this of the difference, which `backfill diff` judges: "revenue_eur < 2% a day", "rows unchanged", '
    '"currency=EUR unchanged". Can be given several times.',
)


def version(text: str) -> Decorator[Any]:
    return click.option("--version", shell_complete=complete_version, metavar="VERSION", help=text)
