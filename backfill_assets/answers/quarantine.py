"""Rejected rows: why, as they were landed, and what the current contract would make of them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from backfill_assets.days import DayRange
from backfill_assets.errors import BackfillError
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landed_lines import format_place, place_values
from backfill_assets.landing.quarantine import Group, Rejects, groups, letters
from backfill_assets.model.placement import IMPLAUSIBLE
from backfill_assets.published.reading import anything_published
from backfill_assets.published.snapshot import Snapshot
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.rebuild.replay import Judged, judge_again, rebuild
from backfill_assets.report.answer import Answer, Datum, Days, Fact, Grid, Id, Line, Part, Worded
from backfill_assets.text import format_range

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_APART = ("source_file", "source_line", "reasons", "day", "arrival_day", "content_hash")
_HINT = (
    "Fix the contract in a new version of the step, or ask the source to land corrected rows as a new file. They are"
    " ingested on the day they arrive, and the old lines stay in quarantine, accounted for."
)


class StillBad(BackfillError):
    """The current contract would accept no quarantined row."""


# ------------------------------------------------------------------ why, and which


@dataclass(frozen=True)
class FoundRejects:
    """Rejected rows by reason; of chosen days also the rows themselves."""

    rejects: Sequence[Rejects]
    days: DayRange | None
    groups: Sequence[Group]
    rows: Sequence[Mapping[str, Any]] = ()
    limit: int = 0
    """The most of ``rows`` that are shown."""


def look_at_rejects(
    storage: Storage, rejects: Sequence[Rejects], days: DayRange | None, reason: str, limit: int
) -> FoundRejects:
    """Reads the quarantine as it is published. ``reason`` is a part of a reason, in any case of letters."""
    wanted = reason.lower()
    found = [group for group in groups(storage, rejects, days) if wanted in group.reason.lower()]
    snapshot = Snapshot.newest(storage)
    rows = [row for each in rejects for row in (letters(snapshot, each.table, days) if days else ())]
    chosen = [row for row in rows if any(wanted in each.lower() for each in row["reasons"])]
    return FoundRejects(rejects, days, found, chosen, limit)


def rejects_answer(found: FoundRejects) -> Answer:
    """A row with two reasons is counted in two lines."""
    columns = ("table", "reason", "days", "rows", "resolved", "first example", "at")
    reasons = Grid("reasons", columns, [*map(_reason, found.groups)], drop=("resolved", "at", "days"))
    if not found.groups:
        on = f" on {format_range(found.days)}" if found.days else ""
        return Answer(parts=(reasons, Line(f"Nothing is quarantined{on}.")))
    parts: list[Part] = [reasons, *_advice_on_days(found)]
    if found.days is None:
        first = found.groups[0]
        return Answer(parts=tuple(parts), next=(f"backfill raw quarantine {first.table} {first.days[0]}",))
    rows = [*map(_row, found.rows[: found.limit])]
    table = Grid("rows", ("at", "day", "arrival day", "reasons", "landed"), rows, one_by_one=True)
    more = len(found.rows) - found.limit
    hidden = [Line(f"{more:,} more rows are not shown: --limit {len(found.rows)}")] if more > 0 else []
    return Answer(parts=(*parts, table, *hidden))


def _reason(group: Group) -> Sequence[object]:
    return (
        group.table,
        group.reason,
        Days.of(group.days),
        group.rows,
        group.resolved,
        group.example,
        _place(group.file, group.line),
    )


def _row(row: Mapping[str, Any]) -> Sequence[object]:
    """Where it is, why it was rejected, and what was landed; what the source did not send is left out."""
    landed = {name: Datum(value) for name, value in row.items() if name not in _APART and value is not None}
    return _place(row["source_file"], row["source_line"]), row["day"], row["arrival_day"], row["reasons"], landed


def _place(file: str, line: int) -> Worded:
    return Worded(place_values(file, line), format_place(file, line))


def _advice_on_days(found: FoundRejects) -> Iterator[Line]:
    """What to do about days that the declaration does not allow: the rows may be right, and the declaration wrong."""
    sources = {each.table: each.source for each in found.rejects}
    for group in found.groups:
        named = _DAY.search(group.example)
        if named and group.reason.endswith(IMPLAUSIBLE):
            source = sources[group.table]
            why = source.why_on_arrival_day(date.fromisoformat(named[0]))
            yield Line(f"{group.table}: {source.event_day_field} {why}")


# ------------------------------------------------------------------ judged again


@dataclass(frozen=True)
class FoundReplay:
    """What the current contract makes of rejected rows, and the steps that were built for those that it accepts."""

    days: DayRange | None
    judged: Sequence[Judged]
    built: Sequence[tuple[str, BuildResult]] = ()

    @property
    def totals(self) -> Sequence[Judged]:
        """Each row once."""
        return [each for each in self.judged if each.reason is None]

    @property
    def freed(self) -> int:
        return sum(each.freed for each in self.totals)

    @property
    def still_bad(self) -> int:
        return sum(each.still_bad for each in self.totals)


def replay(
    builder: Builder, rejects: Sequence[Rejects], days: DayRange | None, run: RunInfo | None, progress: Progress
) -> FoundReplay:
    """Judge the rejected rows of ``days`` again. With a ``run``, build the days with accepted rows, and readers."""
    asked = rejects if anything_published(builder.lake.storage) else ()
    judged = [each for one in asked for each in judge_again(builder.lake, one, days, progress)]
    found = FoundReplay(days, judged)
    freed: dict[str, list[date]] = {}
    steps = {one.table: one.step.name for one in asked}
    for each in found.totals:
        if each.freed:
            freed.setdefault(steps[each.table], []).append(each.day)
    if run is None or not freed:
        return found
    return replace(found, built=[(step.name, result) for step, result in rebuild(builder, freed, run, progress)])


def replay_answer(found: FoundReplay) -> Answer:
    """What is freed by day, then what was built for it."""
    judged = Grid(
        "judged", ("table", "day", "freed", "still bad", "of which"), [_judged(each, found) for each in found.totals]
    )
    built = Grid("built", ("step", "days", "rows", "publications"), [_built(*each) for each in found.built])
    on = f" on {format_range(found.days)}" if found.days else ""
    nothing: list[Part] = [] if found.judged else [Line(f"Nothing is quarantined{on}.")]
    totals = (Fact("freed", found.freed), Fact("still bad", found.still_bad))
    return Answer(parts=(judged, *nothing, *totals, built))


def _judged(total: Judged, found: FoundReplay) -> Sequence[object]:
    of_day = (each for each in found.judged if each.reason and (each.table, each.day) == (total.table, total.day))
    reasons = [{"reason": each.reason, "freed": each.freed, "still_bad": each.still_bad} for each in of_day]
    return total.table, total.day, total.freed, total.still_bad, reasons


def _built(step: str, result: BuildResult) -> Sequence[object]:
    rows = sum(day.rows for day in result.days if day.table == step)
    return (
        step,
        Days.of(sorted({day.day for day in result.days if not day.reused})),
        rows,
        [*map(Id, result.publications)],
    )


def require_one_freed(found: FoundReplay) -> None:
    """Raises :class:`StillBad` with what is wrong, if no quarantined row would be accepted."""
    if found.freed or not found.still_bad:
        return
    reasons: Counter[str] = Counter()
    for each in found.judged:
        if each.reason:
            reasons[each.reason] += each.still_bad
    listed = "\n".join(f"  {rows:,} x {reason}" for reason, rows in reasons.most_common())
    raise StillBad(
        f"None of {found.still_bad:,} quarantined rows would be accepted; nothing was built.\n{listed}", hint=_HINT
    )
