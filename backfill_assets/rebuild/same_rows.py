"""Proves that a version edited in place gives the same rows; publishes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import date

from backfill_assets import clock
from backfill_assets.days import TableDay, contiguous
from backfill_assets.errors import InvalidRequest, LogicEdited
from backfill_assets.lakehouse.kept_logic import SameRows, keep_proof
from backfill_assets.lakehouse.records import DayContent
from backfill_assets.model.declaration import Step
from backfill_assets.model.logic import logic_of
from backfill_assets.rebuild import grown_content
from backfill_assets.rebuild.decide import Decision
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_build import StepBuild
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.state.edited_logic import EditedLogic, contents_of, edited_logic
from backfill_assets.text import days_options, format_count, format_range, format_ranges

_MOST_RANGES, _MOST_DIFFERENCES = 3, 5


def prove_same_rows(
    lake: Lake, step: Step, days: Collection[date], run: RunInfo, progress: Progress
) -> tuple[SameRows, ...]:
    """Record a proof for each edited logic of ``days``. Raises :class:`LogicEdited` with differences,
    :class:`InvalidRequest` if no day can be compared.
    """
    contents = contents_of(lake.states(step))
    edited = edited_logic(lake.storage, [step], contents)
    return tuple(
        proof for each in edited for proof in _Comparison(lake, step, each, contents, run, progress).prove(days)
    )


@dataclass(frozen=True)
class _Comparison:
    lake: Lake
    step: Step
    edited: EditedLogic
    contents: Mapping[TableDay, DayContent]
    run: RunInfo
    progress: Progress

    def prove(self, days: Collection[date]) -> Iterator[SameRows]:
        asked = StepRequest(self.step, sorted({*days} & {*self.edited.days}), self.edited.version)
        build = StepBuild(self.lake, asked, self.run, self.progress, compares=True)
        # Days whose inputs changed have other rows whatever the logic.
        days_kept = build.look(asked.days).days(Decision.KEEP) if asked.days else []
        if not any(self.contents[key].rows for day in days_kept for key in asked.keys(day) if key in self.contents):
            raise self.nothing_to_compare()
        try:
            build.stage(days_kept, forced=days_kept)
        finally:
            for timeline in build.timelines.values():
                timeline.close()
        if differences := list(self.differences(build)):
            raise self.refused(differences)
        yield from self.proofs(days_kept)

    def differences(self, build: StepBuild) -> Iterator[str]:
        for staged in (each for held in build.staged.values() for each in held):
            published = self.contents.get(TableDay(staged.table, staged.day))
            if published is None or published.logical == staged.content.logical:
                continue
            yield f"{staged.table} {staged.day}: {grown_content.difference(published, staged.content)}"

    def refused(self, differences: list[str]) -> LogicEdited:
        shown = "\n".join(differences[:_MOST_DIFFERENCES])
        more = len(differences) - _MOST_DIFFERENCES
        rest = f"\nand {format_count(more, 'day')} more" if more > 0 else ""
        version = self.edited.version
        return LogicEdited(
            f"{self.step.name}: {version} gives other rows than it did; nothing was published:\n{shown}{rest}",
            hint=f"Put {version} back as it was, and declare the change as a new version.",
        )

    def nothing_to_compare(self) -> InvalidRequest:
        return InvalidRequest(
            f"{self.step.name}: none of these days can show that {self.edited.version} gives the same rows: it takes "
            "a day with rows that was made with the other logic, from the inputs there are now.",
            hint=f"Days that were made with it: {days_options(self.edited.days, _MOST_RANGES)}",
        )

    def proofs(self, days: Collection[date]) -> Iterator[SameRows]:
        now = logic_of(self.step.version(self.edited.version)).fingerprint
        for then in self.edited.published:
            keys = [TableDay(name, day) for name in self.step.table_names for day in sorted(days)]
            own = {key: each for key in keys if (each := self.contents.get(key)) and each.logic == then}
            rows = sum(each.rows for each in own.values())
            if not rows:
                continue
            proof = SameRows(
                step=self.step.name,
                version=self.edited.version,
                published=then,
                now=now,
                days=tuple(format_range(each) for each in contiguous({key.day for key in own})),
                rows=rows,
                at=clock.now(),
                by=self.run.launched_by,
            )
            keep_proof(self.lake.storage, proof)
            self.progress(f"{proof}: recorded, of {format_ranges(self.edited.days, _MOST_RANGES)}")
            yield proof
