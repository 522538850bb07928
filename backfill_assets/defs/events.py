"""What a run says of its days in Dagster: failures and lines in its log. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date

import dagster as dg

from backfill_assets.errors import BackfillError
from backfill_assets.model.placement import is_ingestion
from backfill_assets.rebuild.outcome import BuiltDay, DaysFailed
from backfill_assets.text import format_ranges


def gate_failure(error: DaysFailed) -> dg.Failure:
    """Names the days, the rules and the next step; the checks of the failed days have every rule's outcome."""
    failed_days = sorted({day.day for day in error.failed})
    broken = sorted({f"{day.table}.{rule.rule}" for day in error.failed for rule in day.rules if rule.holds_back})
    return dg.Failure(
        description=str(error),
        metadata={
            "failed_days": dg.MetadataValue.text(format_ranges(failed_days)),
            "failed_rules": dg.MetadataValue.json(broken),
            "staged_days": dg.MetadataValue.int(error.staged),
        },
        allow_retries=False,
    )


def plain_failure(error: BackfillError, metadata: Mapping[str, dg.MetadataValue] | None = None) -> dg.Failure:
    """An error that a person can act on, without a stack trace in front of it."""
    hint = {"next_step": dg.MetadataValue.text(error.hint)} if error.hint else {}
    return dg.Failure(description=str(error), metadata={**hint, **(metadata or {})}, allow_retries=False)


@contextmanager
def failing_plainly() -> Iterator[None]:
    """What a person can act on fails the run in words; all other errors keep their stack trace."""
    try:
        yield
    except BackfillError as error:
        raise plain_failure(error) from None


def late_days(appended_elsewhere: Mapping[str, Sequence[date]]) -> dict[str, str]:
    """Table -> the days outside the request that got late rows, written as ranges."""
    return {table: format_ranges(days) for table, days in appended_elsewhere.items() if days}


def rolled_back_days(built: Sequence[BuiltDay]) -> dict[tuple[str, str], str]:
    """The days that a person had rolled back before this run built them again, by table and rollback."""
    days_of: dict[tuple[str, str], list[date]] = {}
    for day in built:
        if day.rolled_back_by:
            days_of.setdefault((day.table, day.rolled_back_by), []).append(day.day)
    return {key: format_ranges(days) for key, days in days_of.items()}


def table_line(table: str, built: Sequence[BuiltDay]) -> str:
    """What became of one table in a run: its days, and the publication that brought them."""
    days = [day for day in built if day.table == table]
    new = [day for day in days if not day.reused]
    by = ", ".join(sorted({day.publication for day in new}))
    published = f"published {format_ranges([day.day for day in new])} by {by}" if new else "published nothing"
    return f"{table}: {published}; {len(days) - len(new)} of {len(days)} unchanged{_versions_text(days)}"


def _versions_text(built: Sequence[BuiltDay]) -> str:
    """The versions of the logic that days have; raw has none."""
    days_of: dict[str, list[date]] = {}
    for day in built:
        days_of.setdefault(day.code_version, []).append(day.day)
    named = {version: days for version, days in days_of.items() if version and not is_ingestion(version)}
    if len(named) == 1:
        return f"; by {next(iter(named))}"
    return "".join(f"; {format_ranges(days)} by {version}" for version, days in sorted(named.items()))
