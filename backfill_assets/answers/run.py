"""What a run of tables would build and why, and what it has built."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets.lakehouse.kept_logic import SameRows
from backfill_assets.model.placement import is_ingestion
from backfill_assets.plan.records import PlannedStep, days_of
from backfill_assets.plan.table_run import RunPlan
from backfill_assets.publish.closed_days import how_to_reopen
from backfill_assets.rebuild.outcome import BuildResult, BuiltDay
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Tone, seconds
from backfill_assets.state.diagnosis import Cause
from backfill_assets.text import format_count, format_ranges

_MOST_RANGES = 2


@dataclass(frozen=True)
class StepRan:
    step: str
    result: BuildResult
    seconds: float
    same_rows: Sequence[SameRows] = ()

    @property
    def days(self) -> list[BuiltDay]:
        return [day for day in self.result.days if day.table == self.step]

    @property
    def unchanged(self) -> int:
        return sum(day.reused for day in self.days)

    @property
    def published(self) -> int:
        return len(self.days) - self.unchanged

    @property
    def deduplicated(self) -> int | None:
        counts = [int(count) for day in self.days if (count := day.metrics.get("deduplicated")) is not None]
        return sum(counts) if counts else None

    @property
    def versions(self) -> list[str]:
        return sorted({day.code_version for day in self.days if not is_ingestion(day.code_version)})

    @property
    def verified(self) -> Mapping[str, str]:
        return {f"{day.table} {day.day}": day.verified for day in self.result.days if day.verified}

    @property
    def built(self) -> Mapping[str, Sequence[date]]:
        found = {table: list(days) for table, days in self.result.appended_elsewhere.items()}
        for day in self.result.days:
            if not day.reused:
                found.setdefault(day.table, []).append(day.day)
        return found

    def __str__(self) -> str:
        return f"{self.step}: {self.published:,} published, {self.unchanged:,} unchanged, in {self.seconds:.1f} s"


# ------------------------------------------------------------------ what would be built


def run_plan_answer(plan: RunPlan, timeline: str = "") -> Answer:
    columns = ("table", "version", "periods", "unchanged", "to build", "why", "earlier", "later")
    rows = [
        (
            each.name,
            each.version,
            len(each.all_days),
            Days.of(days_of(each.skipped)),
            len(each.days),
            _why(each),
            Days.of(days_of(each.earlier)),
            Days.of(days_of(each.later)),
        )
        for each in plan.steps
    ]
    drop = ("periods", "version", "unchanged")
    place = (Fact("timeline", timeline),) if timeline else ()
    days = Fact("days", Days.of(plan.asked.days))
    return Answer(parts=(*place, days, Grid("steps", columns, rows, drop=drop), *_notes(plan)))


def _why(step: PlannedStep) -> Mapping[str, Days]:
    files = format_count(sum(step.to_ingest.values()), "file")
    found = {f"{files} to ingest": Days.of(step.to_ingest)} if step.to_ingest else {}
    for why, ranges in step.rebuild.items():
        if days := [day for day in days_of(ranges) if day not in step.to_ingest]:
            found[why.value] = Days.of(days)
    return found or ({"nothing new has landed": Days()} if step.kind == "take in" else {})


def _notes(plan: RunPlan) -> Iterator[Line]:
    if plan.asked.newest_first:
        yield Line("Each table is computed from its newest days to its oldest, and published when all are.")
    if any(Cause.INPUT_REBUILT in each.rebuild for each in plan.steps):
        yield Line("A day of which an input is rebuilt stays unchanged if the input comes out the same.")
    for each in plan.steps:
        if each.later:
            later = format_ranges(days_of(each.later), _MOST_RANGES)
            yield Line(f"{each.name}: {later} look back to these days, and are built as they were published")
        if each.earlier:
            earlier = format_ranges(days_of(each.earlier), _MOST_RANGES)
            yield Line(f"{each.name}: {earlier} come along: the days look back to them")
    for found in plan.findings:
        yield Line(found.message, Tone.WARN, found.next_step)
    for table in plan.left_out:
        yield Line(f"{table} is left out: raw is shared, and read as of the timeline's base")


# ------------------------------------------------------------------ what was built


def ran_answer(ran: Sequence[StepRan], stale: Mapping[str, Sequence[date]]) -> Answer:
    counts = ("periods", "published", "unchanged", "rows", "deduplicated", "seconds")
    columns = ("table", "version", *counts, "publication", "appended elsewhere", "verified")
    rows = [
        (
            each.step,
            ", ".join(each.versions),
            *(len(each.days), each.published, each.unchanged, sum(day.rows for day in each.days), each.deduplicated),
            seconds(round(each.seconds, 1)),
            [Id(publication) for publication in each.result.publications],
            {table: Days.of(days) for table, days in each.result.appended_elsewhere.items()},
            each.verified,
        )
        for each in ran
    ]
    drop = ("version", "deduplicated", "periods", "seconds")
    return Answer(parts=(Grid("steps", columns, rows, drop=drop), *_said(ran), *stale_facts(stale)))


def _said(ran: Sequence[StepRan]) -> Iterator[Part]:
    if proofs := [proof for step in ran for proof in step.same_rows]:
        yield Fact("same rows", [str(each) for each in proofs])
    for table, days in (item for step in ran for item in step.result.appended_elsewhere.items()):
        late = format_ranges(days)
        yield Line(
            f"{table}: rows were appended to {late} as well; what is computed from it is stale: run {late} too",
            Tone.WARN,
        )
    for day, found in (item for step in ran for item in step.verified.items()):
        yield Line(f"{day} was extended by a stream; verified: {found}")
    yield from _closed(ran)
    touched = any(each.published or each.verified or each.result.appended_elsewhere for each in ran)
    if ran and not touched and not any(day.closed_by for each in ran for day in each.days):
        yield Line("Nothing was computed: every day was published before, from the same inputs by the same code.")


def _closed(ran: Sequence[StepRan]) -> Iterator[Line]:
    found: dict[tuple[str, str, str], list[date]] = {}
    for step in ran:
        for day in step.days:
            if closing := day.closed_by:
                found.setdefault((step.step, closing.said, how_to_reopen(closing)), []).append(day.day)
    for (table, said, reopen), days in found.items():
        yield Line(f"{table}: {format_ranges(days)} is {said}. It stays as it is.", Tone.WARN, reopen)


def stale_facts(days: Mapping[str, Sequence[date]]) -> Iterator[Fact]:
    if days:
        yield Fact("leaves stale", {table: Days.of(found) for table, found in days.items()})
