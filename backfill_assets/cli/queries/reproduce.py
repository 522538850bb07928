"""``backfill reproduce``: prove that published days can be computed again."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack
from functools import cache
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from backfill_assets.cli.completion import complete_undoable
from backfill_assets.cli.foreground import foreground_spark, report_progress
from backfill_assets.cli.group import CommandFailed
from backfill_assets.cli.ids import find_undoable, short_ids, typed_storage
from backfill_assets.cli.output import ranges, say, say_json
from backfill_assets.cli.output import table as new_table
from backfill_assets.cli.wiring import current_catalog, current_settings
from backfill_assets.errors import InvalidRequest
from backfill_assets.text import format_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.rebuild.reproduce import Reproduced, Reproduction
    from backfill_assets.settings import Settings

_COLOURS = {"equal": "green", "different": "bold red", "cannot be reproduced": "yellow"}
_MOST_LISTED = 10
_EPILOG = """
\b
Exit codes:
  0   every day came out equal
  1   nothing was compared; the message says why
  3   a day came out different
  4   no day came out different, but some cannot be reproduced

\b
Examples:
  backfill history fact_sales_transactions --limit 1     find the publication
  backfill reproduce <publication>
  backfill reproduce plan-0123456789abcdef               what its campaign has published
"""


class DaysDiffer(CommandFailed):
    """The same inputs and code gave other rows than those that were published."""

    exit_code = 3


class DaysNotReproduced(CommandFailed):
    """Some days cannot be computed again, so they are not proven; all others came out equal."""

    exit_code = 4


@click.command(epilog=_EPILOG)
@click.argument("what", shell_complete=complete_undoable, metavar="CAMPAIGN|PLAN|PUBLICATION")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def reproduce(what: str, as_json: bool) -> None:
    """Stage every day of every table of a publication again, and compare rows and checksums.

    Each day is computed from the inputs that were recorded with it; landed files are ingested again. Days that cannot
    be reproduced are listed with the reason: of a day that an undo put back or a compaction rewrote, the publication
    that brought it before. Java, Spark, packages and commit are compared with those of the publication. Publishes
    nothing. Starts Spark.
    """
    publication, show = _publication(typed_storage(), what), short_ids(typed_storage())
    with ExitStack() as stack:
        found = _stage_again(current_settings(), publication, stack)
    if as_json:
        say_json(_as_json(publication, found))
    else:
        _say(show(publication), found)
    _judge(show(publication), found)


def _publication(storage: Storage, what: str) -> str:
    """Of a plan or a campaign the one that brought its days, also if it was undone since."""
    from backfill_assets.lakehouse.campaign_journal import campaign_of, plan_of
    from backfill_assets.lakehouse.plans import is_plan_id
    from backfill_assets.lakehouse.timelines import CAMPAIGN
    from backfill_assets.publication.publisher import Publisher
    from backfill_assets.publication.rollback import newest
    from backfill_assets.published.reading import anything_published

    found = find_undoable(storage, what)
    campaign = campaign_of(found) if is_plan_id(found) else found
    if not campaign.startswith(CAMPAIGN):
        return found
    brought = newest(Publisher(storage), campaign) if anything_published(storage) else None
    if brought is None:
        hint = f"backfill campaign {plan_of(campaign)} shows how it stands."
        raise InvalidRequest(f"{plan_of(campaign)} has published nothing.", hint=hint)
    return brought.cut_over.id


def _judge(publication: str, found: Reproduction) -> None:
    """Raise if a day came out different or cannot be reproduced."""
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


def _stage_again(settings: Settings, publication: str, stack: ExitStack) -> Reproduction:
    from backfill_assets.lakehouse.storage import Storage
    from backfill_assets.published.reading import closing_entry
    from backfill_assets.rebuild.builder import Builder

    closing_entry(Storage(str(settings.lakehouse)), publication)

    @cache
    def spark() -> SparkSession:
        return foreground_spark(settings, stack)

    return Builder.from_settings(settings, current_catalog(), spark).reproduce(publication, report_progress)


def _say(publication: str, found: Reproduction) -> None:
    rows = new_table("table", "days", "rows", "came out", "which days", numbers=["days", "rows"], drop=["rows", "days"])
    for table, verdict, days in _groups(found.days):
        total = sum(day.published.rows for day in days if day.published)
        words = Text(verdict, _COLOURS[verdict])
        rows.add_row(table, f"{len(days):,}", f"{total:,}", words, ranges(day.day for day in days))
    say(rows)
    for day in [day for day in found.days if day.verdict == "different"][:_MOST_LISTED]:
        say(_difference(day))
    for line in (*_reasons(found.days), *_environments(publication, found)):
        say(line)


def _groups(days: Iterable[Reproduced]) -> Iterable[tuple[str, str, list[Reproduced]]]:
    groups: dict[tuple[str, str], list[Reproduced]] = {}
    for day in days:
        groups.setdefault((day.table, day.verdict.value), []).append(day)
    return ((table, verdict, found) for (table, verdict), found in groups.items())


def _difference(day: Reproduced) -> str:
    then, now = day.published, day.staged
    if then is None or now is None:
        return ""
    return (
        f"{day.table} {day.day}: published {then.rows:,} rows, checksum {then.checksum};"
        f" now {now.rows:,} rows, checksum {now.checksum}"
    )


def _reasons(days: Iterable[Reproduced]) -> Iterable[str]:
    groups: dict[tuple[str, str], list[Reproduced]] = {}
    for day in days:
        if day.reason:
            groups.setdefault((day.table, day.reason), []).append(day)
    for (table, reason), found in groups.items():
        yield f"{table} {ranges(day.day for day in found)} cannot be reproduced: {reason}"


def _environments(publication: str, found: Reproduction) -> Iterable[str]:
    from backfill_assets.rebuild.environment import differences

    if found.here is None:
        return
    if not found.made_with:
        yield f"{publication} did not record with which Java, Spark and packages it was made."
    for environment in found.made_with:
        if difference := differences(environment, found.here):
            yield f"{publication} was {difference}."
        if environment.dirty:
            yield f"{publication} was made by code that no commit contains ({environment.git_commit})."


def _as_json(publication: str, found: Reproduction) -> dict[str, Any]:
    from backfill_assets.rebuild.environment import differences

    here = found.here
    return {
        "publication": publication,
        "days": [_day_json(day) for day in found.days],
        "here": here.model_dump() if here else None,
        "made_with": [each.model_dump() for each in found.made_with],
        "differences": [text for each in found.made_with if here is not None and (text := differences(each, here))],
    }


def _day_json(day: Reproduced) -> dict[str, object]:
    return {
        "table": day.table,
        "day": day.day,
        "verdict": day.verdict.value,
        "reason": day.reason,
        "rows_published": day.published.rows if day.published else None,
        "rows_staged": day.staged.rows if day.staged else None,
        "published_checksum": day.published.checksum if day.published else None,
        "staged_checksum": day.staged.checksum if day.staged else None,
    }
