"""Options that several verbs share: one spelling, one meaning, one help text."""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import date
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from backfill_assets.cli.completion import complete_days, complete_timeline, complete_version
from backfill_assets.cli.output import JSON
from backfill_assets.days import DayRange, parse_day

Command = TypeVar("Command", bound=Callable[..., Any])
Decorator = Callable[[Command], Command]


class _Days(click.ParamType[DayRange]):
    name = "A..B"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> DayRange:
        return value if isinstance(value, DayRange) else DayRange.parse(value)


class _Day(click.ParamType[date]):
    name = "YYYY-MM-DD"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> date:
        return value if isinstance(value, date) else parse_day(value)


DAYS, DAY = _Days(), _Day()


def _note_json(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    """Every answer of the command asks for it: no function passes it on."""
    ctx.meta[JSON] = value


def days(text: str, *, required: bool = False) -> Decorator[Any]:
    """``--days A..B``, as a :class:`DayRange`."""
    return click.option("--days", type=DAYS, shell_complete=complete_days, metavar="A..B", required=required, help=text)


def refuse(context: click.Context, given: Container[str], why: str) -> None:
    """Raise for each of the parameters called ``given`` that was typed: it would be ignored."""
    for each in context.command.params:
        typed = context.get_parameter_source(each.name or "") is not ParameterSource.DEFAULT
        if typed and each.name in given:
            name = each.opts[0] if isinstance(each, click.Option) else each.make_metavar(context).strip("[]")
            raise click.UsageError(f"{name} cannot be given {why}.")


day = click.argument("day", type=DAY, shell_complete=complete_days, metavar="DAY")
"""A day as an argument, after the table."""
as_json = click.option("--json", is_flag=True, expose_value=False, callback=_note_json, help="Print JSON.")
yes = click.option("--yes", is_flag=True, help="Do not ask. Required without a terminal.")
on_timeline = click.option(
    "--on", shell_complete=complete_timeline, metavar="NAME", help="On this timeline.  [default: main]"
)
expect = click.option(
    "--expect",
    "expected",
    multiple=True,
    metavar="TEXT",
    help='Expect this of the difference, which `backfill diff` judges: "revenue_eur < 2% a day", "rows unchanged", '
    '"currency=EUR unchanged". Can be given several times.',
)


def version(text: str) -> Decorator[Any]:
    """``--version V`` of the logic of a table."""
    return click.option("--version", shell_complete=complete_version, metavar="VERSION", help=text)
