"""Cuts a campaign over: all its tables in one publication, or nothing.

Days whose inputs moved are staged again. A day that another campaign published since needs a person.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial

from backfill_assets.days import TableDay, all_days
from backfill_assets.errors import GateFailed, InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.records import Expected, Notice, Origin, Publication
from backfill_assets.lakehouse.timelines import close_timelines, newest_verdicts
from backfill_assets.model.graph import read_by
from backfill_assets.publish.holds import HeldDays, holding
from backfill_assets.publish.promote import Again, main_moved, promote
from backfill_assets.publish.publisher import Conflict, Published
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.rebuild.step_look import StepRequest
from backfill_assets.rebuild.walk import HeldBack, StepBuilt, request_of, shadow
from backfill_assets.state.readers import naming_readers
from backfill_assets.text import format_are, format_count

MakeNotice = Callable[[Publication], Notice]
ReviewCall = Callable[[Sequence[StepBuilt], Progress], bool]
"""Called before publishing. False: stage again what moved."""


@dataclass(frozen=True)
class CutOver:
    published: Published
    days: Mapping[str, tuple[date, ...]]
    staged_again: Mapping[str, tuple[date, ...]]


def cut_over(
    lake: Lake,
    campaign: str,
    steps: Sequence[StepRequest],
    run: RunInfo,
    progress: Progress,
    *,
    without_held_back: bool = False,
    notice: MakeNotice | None = None,
    review: ReviewCall | None = None,
) -> CutOver:
    """Publish everything that ``campaign`` has staged of ``steps`` together, with ``notice``.

    Moved days are staged again first; the last check and the publication are under a hold. ``review`` sees exactly what
    is published, and is called again if main moves.

    Raises :class:`GateFailed` for held-back days, unless ``without_held_back`` and held back from the start;
    :class:`PublicationRefused` if another campaign was first or main keeps moving; :class:`InvalidRequest` if
    nothing is staged.
    """
    lake.publisher.recover({table.name for each in steps for table in each.step.tables})
    verdicts = newest_verdicts(lake.storage, [name for each in steps for name in each.tables], campaign)
    before = {key: verdict.replaces for key, verdict in verdicts.items()}
    first = shadow(lake, campaign, steps, run, progress)
    _refuse_other_campaigns(lake, campaign, first, before)
    if review is not None:
        review(first, progress)
    accepted = {TableDay(each.table, each.day) for each in _days_held_back(first)} if without_held_back else set()
    _refuse_held_back(campaign, first, accepted)
    with holding(lake.storage, campaign, _touched_days(steps)) as hold:
        staged = _Staged(lake, campaign, steps, run, hold, progress, before, accepted, review)
        staged.again |= _computed_days(first)
        readers = naming_readers(lake.catalog.steps, lake.publisher.log, then=partial(_with_notice, notice))
        published = promote(lake.publisher, staged, progress, readers=readers)
        if published is None:
            raise InvalidRequest(f"{shown_name(campaign)} has staged nothing that main does not have already.")
        close_timelines(lake.storage, (name for each in steps for name in each.tables), campaign)
    days = {table: each.staged for each in staged.done for table in each.build.tables if each.staged}
    return CutOver(published, days, _days_staged_again(staged.again, days, before))


@dataclass
class _Staged:
    lake: Lake
    campaign: str
    steps: Sequence[StepRequest]
    run: RunInfo
    hold: HeldDays
    progress: Progress
    before: Mapping[TableDay, str]
    accepted: set[TableDay]
    review: ReviewCall | None = None
    done: Sequence[StepBuilt] = ()
    again: set[TableDay] = field(default_factory=set)

    def stage(self, *, held: bool) -> Publication | Conflict | None:
        self.hold.extend()
        self.done = shadow(self.lake, self.campaign, self.steps, self.run, self.report)
        self.again |= _computed_days(self.done)
        _refuse_other_campaigns(self.lake, self.campaign, self.done, self.before)
        if self.review is not None and not self.review(self.done, self.report):
            return Conflict(reasons=("main moved while it was compared",))
        self.hold.extend()
        _refuse_held_back(self.campaign, self.done, self.accepted)
        return _request(self.lake, self.campaign, self.done, self.run)

    def overtaken(self, by: Conflict) -> Again:
        shown = shown_name(self.campaign)
        refused = main_moved(shown, "it was cut over", "cut over again")
        return Again(f"{shown}: {_conflict_text(by)}, staging what moved again", refused)

    def report(self, message: str) -> None:
        """Each line of progress extends the hold."""
        self.hold.extend()
        self.progress(message)


def _days_held_back(done: Sequence[StepBuilt]) -> list[HeldBack]:
    return [each for step in done for each in step.held_back]


def _computed_days(done: Sequence[StepBuilt]) -> set[TableDay]:
    return {TableDay(table, day) for each in done for table in each.build.tables for day in each.build.computed}


def _touched_days(steps: Sequence[StepRequest]) -> dict[str, set[date]]:
    """Days written and read: if an input is replaced, the cut-over starts over."""
    written = (dict.fromkeys(each.tables, each.days) for each in steps)
    return all_days([*written, *(read_by(each.step, each.days, each.named) for each in steps)])


def _refuse_held_back(campaign: str, done: Sequence[StepBuilt], accepted: set[TableDay]) -> None:
    if held := [each for each in _days_held_back(done) if (each.table, each.day) not in accepted]:
        named = "; ".join(f"{each.table} {each.day}: {each.why}" for each in held[:5])
        raise GateFailed(
            f"{shown_name(campaign)}: {format_are(len(held), 'day')} held back: {named}. Nothing was published.",
            hint="Fix the cause and run the plan again, or approve with --without-held-back to publish the others.",
        )


def _refuse_other_campaigns(
    lake: Lake, campaign: str, done: Sequence[StepBuilt], before: Mapping[TableDay, str]
) -> None:
    log = lake.publisher.log
    states = log.day_states(log.head(), {key.table for key, _ in _expected_states(done)})
    for key, expected in _expected_states(done):
        moved = expected.publication != before.get(key, expected.publication)
        by = campaign_that_brought(states[key].origin) if moved and key in states else ""
        if by not in ("", campaign):
            raise PublicationRefused(
                f"{key} was brought by {shown_name(by)} ({states[key].origin.brought_by}) since "
                f"{shown_name(campaign)} staged it.",
                hint="Plan again: the new plan starts from what the other campaign has published.",
            )


def campaign_that_brought(origin: Origin) -> str:
    return origin.campaign if origin.computed_by in ("", origin.brought_by) else ""


def _expected_states(done: Sequence[StepBuilt]) -> Iterable[tuple[TableDay, Expected]]:
    for each in done:
        for day, held in each.build.staged.items():
            for staged in held:
                key = TableDay(staged.table, day)
                yield key, staged.pin.expected[key]


def _request(lake: Lake, campaign: str, done: Sequence[StepBuilt], run: RunInfo) -> Publication | None:
    staged = request_of(done, lake.new_id(campaign))
    chosen = {day.only_where for change in (staged.tables if staged else ()) for day in change.days} - {""}
    reason = "".join(f"only rows of {done[0].step} with {where}" for where in chosen)
    made = run.provenance(campaign, campaign=campaign, reason=reason)
    return staged.model_copy(update={"provenance": made}) if staged is not None else None


def _with_notice(notice: MakeNotice | None, found: Publication) -> Publication:
    return found.model_copy(update={"notice": notice(found)}) if notice else found


def _days_staged_again(
    again: set[TableDay], published: Mapping[str, Sequence[date]], before: Mapping[TableDay, str]
) -> dict[str, tuple[date, ...]]:
    moved = {
        table: tuple(sorted(day for day in days if TableDay(table, day) in again & before.keys()))
        for table, days in published.items()
    }
    return {table: days for table, days in moved.items() if days}


def _conflict_text(moved: Conflict) -> str:
    days = {f"{table} {day}" for table, found in (*moved.days.items(), *moved.inputs.items()) for day in found}
    reasons = "; ".join(moved.reasons[:2])
    return f"{format_count(len(days), 'day')} moved ({reasons})" if days else reasons
