"""Lets facts follow: after each batch, the days that gained rows are extended through all tables that follow."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta

from backfill_assets.datasets import registry
from backfill_assets.errors import BackfillError
from backfill_assets.model.declaration import Step
from backfill_assets.rebuild.extension.earlier_states import InputMemory
from backfill_assets.rebuild.extension.extend import ExtendResult, extend, followed_steps
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream.batches import HOLD_SECONDS, stream_name
from backfill_assets.stream.behind import find_days_behind
from backfill_assets.stream.reference import ReferenceData
from backfill_assets.text import format_ranges


@dataclass
class Follower:
    """What follows ``raw``. Days that could not be published stay ``pending``, and are tried with the next batch."""

    lake: Lake
    raw: Step
    run: RunInfo
    progress: Progress
    report: Callable[[str], None]
    pending: set[date] = field(default_factory=set)
    memory: InputMemory = field(default_factory=InputMemory)
    batches: int = 0
    """How many were published."""
    _reported: dict[date, str] = field(default_factory=dict)
    _supplied: dict[date, int] = field(default_factory=dict)

    @property
    def steps(self) -> list[Step]:
        return followed_steps(self.lake.with_current(registry.steps()), self.raw.name)

    def catch_up(self) -> None:
        """Bring up to date what a stream that was killed has left behind."""
        steps = self.steps
        if steps:
            self.follow(find_days_behind(self.lake.publisher.log, self.raw.name, steps[0]))

    def follow(self, days: Collection[date]) -> None:
        """Extend ``days``, and those that are pending. What keeps a day from it is reported, once for each reason."""
        self.pending |= set(days)
        steps = self.steps
        if not steps or not self.pending:
            return
        name = f"stream-{steps[-1].name}"
        today = self.lake.publisher.now().date()
        try:
            self._bring_reference_data(steps, today)
            result = extend(
                *(self.lake, steps, self.pending, self.run, self.progress),
                memory=self.memory,
                name=name,
                open_days=(today - timedelta(days=1), today),
                transaction=stream_name(self.raw.name),
                hold_seconds=HOLD_SECONDS,
            )
        except BackfillError as error:
            self._report(dict.fromkeys(self.pending, error.message))
            return
        self._settle(result)

    def forget(self) -> None:
        """Raw has other files now: what its days were extended from is looked up in the log again."""
        self.memory = InputMemory()

    def _bring_reference_data(self, steps: Sequence[Step], today: date) -> None:
        """Once for each pending day, and for a day that is still open whenever something may have landed: each hour."""
        new = {day for day in self.pending if self._supplied.get(day, 0) < self._hour(day, today)}
        if new:
            ReferenceData(self.lake, tuple(steps), self.run, self.progress).build(new)
            self._supplied |= {day: self._hour(day, today) for day in new}

    def _hour(self, day: date, today: date) -> int:
        """A number that grows each hour for a day that is still open."""
        return int(self.lake.publisher.now().timestamp()) // 3600 if (today - day).days <= 1 else 1

    def _settle(self, result: ExtendResult) -> None:
        held = {each.day: f"{each.table} is held back: {each.why}" for each in result.held_back}
        self.pending = set(result.left)
        self._report({**result.left, **held})

    def _report(self, reasons: dict[date, str]) -> None:
        news: dict[str, list[date]] = {}
        for day, reason in reasons.items():
            if self._reported.get(day) != reason:
                news.setdefault(reason, []).append(day)
        self._reported = reasons
        for reason, days in news.items():
            self.report(f"{format_ranges(days)} will follow later: {reason}")
