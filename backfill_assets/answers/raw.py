"""What came in: rejected and lost rows, files corrected by their source, positions of sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import date
from typing import Any

from backfill_assets.answers.held_back import held_of, held_parts
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import BackfillError, InvalidRequest
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.landed_lines import event_place, format_place, place_values
from backfill_assets.landing.quarantine import Group, Rejects, groups, letters
from backfill_assets.landing.zone import LandedFile
from backfill_assets.model.event_day import day_named
from backfill_assets.model.placement import IMPLAUSIBLE
from backfill_assets.publish.log import anything_published
from backfill_assets.rebuild.builder import Builder
from backfill_assets.rebuild.changed_files import ArrivalFiles
from backfill_assets.rebuild.lake import Progress
from backfill_assets.rebuild.lost_rows import LostDay, count_rows
from backfill_assets.rebuild.outcome import BuildResult, RunInfo
from backfill_assets.rebuild.refresh import RefreshResult
from backfill_assets.rebuild.replay import Judged, judge_again, rebuild
from backfill_assets.rebuild.restore import Restored
from backfill_assets.report.answer import NOT_DONE, Answer, Datum, Days, Fact, Grid, Id, Line, Part, Tone, Worded
from backfill_assets.state.boundaries import DaysBoundary, RawBoundary, versions_text
from backfill_assets.state.positions import is_raw, table_boundaries
from backfill_assets.state.view import View, find_moment
from backfill_assets.stream.lease import HeldEvents
from backfill_assets.text import format_count, format_first, format_range

_MOST_ROWS, _MOST_NAMED = 10, 5
_APART = ("source_file", "source_line", "reasons", "day", "arrival_day", "content_hash")
_HINT = (
    "Fix the contract in a new version of the step, or ask the source to send corrected rows, in a new file or as"
    " events. The old lines stay in quarantine, accounted for."
)


class StillBad(BackfillError):
    pass


# ------------------------------------------------------------------ why, and which


def rejects_answer(storage: Storage, rejects: Sequence[Rejects], days: DayRange | None) -> Answer:
    """Rejected rows by reason, with ``days`` also the rows; a row of two reasons counts in both."""
    found = groups(storage, rejects, days)
    held = [*held_parts(held_of(storage, rejects, days))]
    columns = ("table", "reason", "days", "rows", "resolved", "first example", "at")
    reasons = Grid("reasons", columns, [*map(_reason, found)], drop=("resolved", "at"))
    if not found:
        return Answer(parts=(reasons, *held, *([] if held else [_nothing_quarantined(days)])))
    parts: tuple[Part, ...] = (reasons, *held, *_advice_on_days(rejects, found))
    if days is None:
        return Answer(parts=parts, next=(f"backfill raw quarantine {found[0].table} {found[0].days[0]}",))
    view = View.newest(storage)
    rows = [_row(row) for each in rejects for row in letters(view, each.table, days)]
    columns_of_rows = ("at", "day", "arrival day", "reasons", "landed")
    return Answer(parts=(*parts, Grid("rows", columns_of_rows, rows, most=_MOST_ROWS, one_by_one=True)))


def _nothing_quarantined(days: DayRange | None) -> Line:
    return Line(f"Nothing is quarantined{f' on {format_range(days)}' if days else ''}.")


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
    landed = {name: Datum(value) for name, value in row.items() if name not in _APART and value is not None}
    return _place(row["source_file"], row["source_line"]), row["day"], row["arrival_day"], row["reasons"], landed


def _place(file: str, line: int) -> Worded:
    return Worded(place_values(file, line), format_place(file, line))


def _advice_on_days(rejects: Sequence[Rejects], found: Sequence[Group]) -> Iterator[Line]:
    sources = {each.table: each.source for each in rejects}
    for group in found:
        source = sources[group.table]
        named = day_named(source, group.example)
        if named and group.reason.endswith(IMPLAUSIBLE):
            of_topic = event_place(group.file, group.line) is not None
            why = source.why_on_arrival_day(named, of_topic=of_topic)
            yield Line(f"{group.table}: {source.event_day_field} {why}")


# ------------------------------------------------------------------ judged again


@dataclass(frozen=True)
class FoundReplay:
    days: DayRange | None
    judged: Sequence[Judged]
    held: Sequence[HeldEvents] = ()
    built: Sequence[tuple[str, BuildResult]] = ()

    @property
    def totals(self) -> Sequence[Judged]:
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
    """Judges rejected rows again; with ``run``, builds days with accepted rows, and their readers."""
    asked = rejects if anything_published(builder.lake.storage) else ()
    judged = [each for one in asked for each in judge_again(builder.lake, one, days, progress)]
    found = FoundReplay(days, judged, _held_by_another_version(builder, asked, days))
    freed: dict[str, list[date]] = {}
    steps = {name: one.step.name for one in asked for name in one.step.table_names}
    due = [TableDay(each.table, each.day) for each in found.totals if each.freed]
    for table, day in dict.fromkeys([*due, *(TableDay(each.table, each.day) for each in found.held)]):
        freed.setdefault(steps[table], []).append(day)
    if run is None or not freed:
        return found
    return replace(found, built=[(step.name, result) for step, result in rebuild(builder, freed, run, progress)])


def _held_by_another_version(builder: Builder, rejects: Sequence[Rejects], days: DayRange | None) -> list[HeldEvents]:
    """Only building judges these: no quarantine has their rows."""
    steps = builder.lake.with_current([each.step for each in rejects])
    current = {name: step.current for step in steps for name in step.table_names}
    held = held_of(builder.lake.storage, rejects, days)
    return [each for each in held if each.version not in ("", current.get(each.table))]


def replay_answer(found: FoundReplay) -> Answer:
    judged = Grid(
        "judged", ("table", "day", "freed", "still bad", "of which"), [_judged(each, found) for each in found.totals]
    )
    built = Grid("built", ("step", "days", "rows", "publications"), [_built(*each) for each in found.built])
    nothing = [] if found.judged or found.held else [_nothing_quarantined(found.days)]
    totals = (Fact("freed", found.freed), Fact("still bad", found.still_bad))
    held = [Line(f"{each}: built by the version of now, its gates decide.") for each in found.held]
    return Answer(parts=(judged, *nothing, *held, *totals, built))


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
    """Raises :class:`StillBad` if no quarantined row would be accepted."""
    if found.freed or found.held or not found.still_bad:
        return
    reasons: Counter[str] = Counter()
    for each in found.judged:
        if each.reason:
            reasons[each.reason] += each.still_bad
    listed = "\n".join(f"  {rows:,} x {reason}" for reason, rows in reasons.most_common())
    raise StillBad(
        f"None of {found.still_bad:,} quarantined rows would be accepted; nothing was built.\n{listed}", hint=_HINT
    )


# ------------------------------------------------------------------ corrected files


def refresh_answer(found: RefreshResult) -> Answer:
    rows = [(day, *counts) for day, counts in sorted(found.rows.items())]
    grids = (
        Grid("files", ("arrival day", "unchanged", "changed", "gone", "new"), [*map(_files, found.files)]),
        Grid("rows", ("event day", "added", "deleted"), rows),
    )
    otherwise = [Line(_READ_OTHERWISE.format(format_count(found.read_otherwise, "row")), Tone.WARN)]
    found_out = (*grids, *(otherwise if found.read_otherwise else ()))
    published = Fact("publication", Id(found.publication))
    if found.publication:
        stale = Fact("stale now", Days.of(sorted(found.rows)))
        undo = f"backfill rollback {found.publication}"
        return Answer(parts=(*found_out, published, stale), next=("backfill status", undo))
    would_change = found.dry_run and (found.rows or any(each.differs for each in found.files))
    nothing = Line("Raw has just what the source has: nothing was appended.")
    return Answer(parts=(*found_out, NOT_DONE if would_change else nothing, published))


_READ_OTHERWISE = (
    "{} of files that have not changed: read otherwise now than when raw took them in. A number without quotes is "
    "what its digits say, and was a 64-bit float."
)


def _files(found: ArrivalFiles) -> Sequence[object]:
    kinds: Sequence[Sequence[LandedFile | str]] = (found.unchanged, found.changed, found.gone, found.new)
    return found.day, *map(_paths, kinds)


def _paths(files: Sequence[LandedFile | str]) -> Worded:
    return Worded([each if isinstance(each, str) else each.path for each in files], f"{len(files):,}")


# ------------------------------------------------------------------ lost rows


def restore_answer(found: Restored, *, dry_run: bool) -> Answer:
    columns = ("day", "rows", "lost files", "rows before a compaction", "read again from", "of no use")
    days = Grid("days", columns, [*map(_lost, found.days)], one_by_one=True)
    done = NOT_DONE if dry_run else Fact("publication", Id(found.publication))
    return Answer(parts=(days, done if found.days else Line("No file is lost.")))


def _lost(lost: LostDay) -> Sequence[object]:
    texts = [file.path for file in lost.lost], [file.path for file in lost.landed], lost.problems
    files, landed, problems = (Worded(list(each), format_first(each, _MOST_NAMED)) for each in texts)
    rows = count_rows(lost.lost)
    return lost.day, rows, files, rows - count_rows(lost.absent), landed, problems


# ------------------------------------------------------------------ positions


def positions_answer(storage: Storage, table: str, at: str | None) -> Answer:
    """Partitions and landed files of a raw table; days of other tables by their inputs.

    ``at``: a publication, a Delta version of ``table``, or a time. Raises :class:`InvalidRequest` if nothing was
    published then.
    """
    view = View.newest(storage) if at is None else find_moment(storage, at, table)
    if at is None and table not in view.versions:
        raise InvalidRequest(
            f"Nothing was published to {table} in {storage.root}.", hint=f"backfill run {table} --days A..B builds it."
        )
    found = table_boundaries(view, table)
    read = _of_raw(found[0].boundary) if is_raw(table) else _of_days(table, found)
    facts = (Fact("table", table), Fact("version", view.versions[table]), Fact("log entry", view.sequence))
    return Answer(parts=(*facts, *read))


def _of_raw(boundary: RawBoundary) -> Iterator[Part]:
    yield Fact("landed files", boundary.landed_files)
    yield Fact("newest arrival", boundary.newest_arrival)
    if boundary.unknown:
        yield Line(f"Unknown: {boundary.unknown}.", Tone.WARN)
    columns = ("topic", "partition", "next offset", "live since")
    rows = [(each.topic, each.partition, each.next_offset, each.live_since) for each in boundary.positions]
    yield Grid("partitions", columns, rows)


def _of_days(table: str, found: Sequence[DaysBoundary]) -> Iterator[Part]:
    columns = ("days", "computed from", "versions", "positions", "landed files", "newest arrival", "unknown")
    rows = [_boundary(each.days, each.boundary) for each in found]
    yield Grid("boundaries", columns, rows, drop=("newest arrival",))
    if not rows:
        yield Line(f"No published day of {table} says which raw version it was computed from.")


def _boundary(days: Sequence[date], read: RawBoundary) -> Sequence[object]:
    versions = Worded(read.versions, versions_text(read.versions))
    positions = [Worded(asdict(each), f"topic {each.topic}: {each}") for each in read.positions]
    return Days.of(days), read.table, versions, positions, read.landed_files, read.newest_arrival, read.unknown
