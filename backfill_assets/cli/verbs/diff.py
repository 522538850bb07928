from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import click

from backfill_assets.cli.completion import complete_plan_or_state
from backfill_assets.cli.foreground import foreground_builder, foreground_lake, report_progress
from backfill_assets.cli.group import CommandFailed
from backfill_assets.cli.ids import campaign_meant, find_plan, find_state, find_undoable
from backfill_assets.cli.options import STATE, TABLE, as_json, days, long
from backfill_assets.cli.output import say_answer
from backfill_assets.cli.wiring import current_catalog, current_settings, open_publisher, open_storage
from backfill_assets.days import DayRange
from backfill_assets.errors import InvalidRequest, LakehouseUnusable
from backfill_assets.lakehouse.named_timelines import RECOMPUTED
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from backfill_assets.difference.verdict import Difference
    from backfill_assets.publish.publisher import Publisher
    from backfill_assets.rebuild.reproduce import Reproduction
    from backfill_assets.report.answer import Answer
    from backfill_assets.settings import Settings


class DaysDiffer(CommandFailed):
    """Inputs and code gave rows other than the published ones."""

    exit_code = 3


class DaysNotReproduced(CommandFailed):
    """Some days cannot be computed again; all others came out equal."""

    exit_code = 4


@click.command()
@click.argument("left", shell_complete=complete_plan_or_state, metavar="PLAN|LEFT")
@click.argument("right", shell_complete=STATE.shell_complete, required=False, metavar="[RIGHT|recomputed]")
@click.option(
    "--table",
    "tables",
    multiple=True,
    type=TABLE,
    help="Two states only: compare this table.",
)
@days("Two states only: compare these days.")
@click.option(
    "--html",
    "page",
    is_flag=False,
    flag_value="",
    default=None,
    metavar="FILE",
    help="Write the letter, a page with charts that needs no network.  [default: <home>/differences/<plan>.html]",
)
@long
@as_json
@click.pass_context
def diff(
    ctx: click.Context,
    left: str,
    right: str | None,
    tables: tuple[str, ...],
    days: DayRange | None,
    page: str | None,
) -> None:
    """Compare what `backfill run PLAN` has staged with what is published, table by table and day by day.

    \b
    Examples:
      backfill diff plan-0123456789abcdef --html           also its letter, with charts
      backfill diff main with-v2                           what publishing a timeline would change
      backfill diff <publication> recomputed               prove that its days can be computed again

    With LEFT and RIGHT, compare two states: main, a timeline, a publication, or a time in UTC. With the word
    recomputed, stage each day of a publication, plan or campaign again from the inputs that were recorded with it, and
    compare rows and checksums; nothing is published.

    On a terminal the first lines say what changes, on which days, in which code, and whether it is as expected; --long
    shows the rest: how many rows are added, removed and changed (by key), the sums of measures, the groups that differ
    most, some changed rows side by side, and the changed lines of code. Personal columns are not shown. Days with the
    same content are not read.

    The difference of a plan is stored with it. The exit code is 1 if an expectation of the plan is not met.

    \b
    Exit codes with recomputed:
      0   every day came out equal
      1   nothing was compared; the message says why
      3   a day came out different
      4   no day came out different, but some cannot be reproduced
    """
    if right == RECOMPUTED:
        if tables or days or page is not None:
            raise click.UsageError("recomputed is about one publication: give nothing beside it but --json.")
        _recompute(left)
        return
    if right is None and (tables or days):
        raise click.UsageError("--table and --days are about two states: a plan says what is compared.")
    settings = current_settings()
    if right is None:
        name = find_plan(open_storage(), left)
        found, answer = _of_plan(settings, name)
    else:
        found, answer = _of_states(settings, left, find_state(open_storage(), right), tables, days)
        name = re.sub(r"[^A-Za-z0-9_.-]", "-", f"{found.left}-and-{found.right}")
    if page is not None:
        _write(answer, Path(page) if page else settings.home / "differences" / f"{name}.html")
    say_answer(answer(drawn=False))
    ctx.exit(1 if found.unmet else 0)


class _Answer(Protocol):
    def __call__(self, *, drawn: bool) -> Answer: ...


def _of_plan(settings: Settings, id: str) -> tuple[Difference, _Answer]:
    from backfill_assets.answers.campaign import next_of_plan
    from backfill_assets.campaign.look import plan_difference_answer
    from backfill_assets.cli.running_dev import running_ui
    from backfill_assets.difference.find import find_difference, last_difference
    from backfill_assets.plan.keep import plan_as_kept

    plan = plan_as_kept(settings, id)
    with foreground_lake() as lake:
        kept = None
        with suppress(LakehouseUnusable):  # damaged or of another format: compare all again, and replace it
            kept = last_difference(lake.storage, plan.id)
        found = find_difference(lake, plan, report_progress, known=kept.tables if kept else ())
    steps, ui, publisher = current_catalog().steps, running_ui(settings), open_publisher()

    def answer(*, drawn: bool) -> Answer:
        shown = plan_difference_answer(publisher.log, plan, found, steps, settings.approval_by, ui=ui, drawn=drawn)
        return shown if drawn else shown.with_next(() if found.unmet else next_of_plan(publisher, plan))

    return found, answer


def _of_states(
    settings: Settings, left: str, right: str, tables: Sequence[str], days: DayRange | None
) -> tuple[Difference, _Answer]:
    from backfill_assets.difference.find import StatesRequest, compare_states, declared_of
    from backfill_assets.difference.letter import difference_answer

    steps, asked = current_catalog().steps, StatesRequest(find_state(open_storage(), left), right, tables, days)
    with foreground_lake() as lake:
        found = compare_states(lake, steps, asked, report_progress)
    return found, partial(difference_answer, found, declared_of(steps))


def _write(answer: _Answer, file: Path) -> None:
    from backfill_assets.report.html import html

    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html(answer(drawn=True)), encoding="utf-8")
    click.echo(f"Written: {file.absolute()}", err=True)


# ------------------------------------------------------------------ recomputed


def _recompute(what: str) -> None:
    from backfill_assets.answers.reproduction import reproduction_answer
    from backfill_assets.state.reading import closing_entry

    publication = _publication(open_publisher(), what)
    closing_entry(open_storage(), publication)
    with foreground_builder({}) as builder:
        found = builder.reproduce(publication, report_progress)
    say_answer(reproduction_answer(publication, found))
    _judge(publication, found)


def _publication(publisher: Publisher, what: str) -> str:
    """The publication that brought a plan's or campaign's days, also if undone since."""
    from backfill_assets.campaign.published import published_by
    from backfill_assets.lakehouse.campaign_journal import plan_of

    found = find_undoable(publisher.storage, what)
    campaign = campaign_meant(found)
    if not campaign:
        return found
    brought = published_by(publisher.log, campaign)
    if not brought:
        plan = plan_of(campaign)
        raise InvalidRequest(f"{plan} has published nothing.", hint=f"backfill status {plan} shows how it stands.")
    return brought[-1].cut_over


def _judge(publication: str, found: Reproduction) -> None:
    from backfill_assets.rebuild.reproduce import ReproductionVerdict

    of = f"of {format_count(len(found.days), 'day')}"
    different = sum(day.verdict is ReproductionVerdict.DIFFERENT for day in found.days)
    if different:
        raise DaysDiffer(
            f"{publication}: {different} {of} came out different.\n"
            "  -> Look at the commit, Java, Spark and packages that are named above, if any:"
            " was logic changed without a new version?"
        )
    lost = sum(day.verdict is ReproductionVerdict.NOT_REPRODUCED for day in found.days)
    if lost:
        equal = len(found.days) - lost
        raise DaysNotReproduced(f"{publication}: {lost} {of} cannot be reproduced; {equal} came out equal.")
