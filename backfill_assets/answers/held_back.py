"""Events that a stream has read and a gate holds back, and their release by a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from backfill_assets import clock
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import InvalidRequest
from backfill_assets.lakehouse.records import DayState
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import Rejects
from backfill_assets.landing.release import Release, write_release
from backfill_assets.publish.log import PublicationLog, anything_published
from backfill_assets.rebuild.follow import FollowBuild, Followed
from backfill_assets.rebuild.growing import InputMemory, following
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.report.answer import Answer, Fact, Grid, Id, Line, Part, Tone
from backfill_assets.stream.lease import HeldEvents, held_back

_MOST_REASONS = 3


def find_held(storage: Storage, states: Mapping[TableDay, DayState] | None = None) -> list[HeldEvents]:
    if states is None:
        log = PublicationLog(storage)
        states = log.day_states(log.head())
    return held_back(storage, states)


def held_of(storage: Storage, rejects: Sequence[Rejects], days: DayRange | None) -> list[HeldEvents]:
    tables = {name for each in rejects for name in (each.table, each.typed)}
    held = find_held(storage) if anything_published(storage) else []
    return [each for each in held if each.table in tables and (days is None or each.day in days)]


def held_parts(found: Sequence[HeldEvents]) -> Iterator[Part]:
    if found:
        columns = ("table", "day", "events", "rejected", "gate", "since", "why", "reasons")
        title = "Events that a gate holds back: they are in raw, and in no table that follows"
        yield Grid("held back", columns, [_row(each) for each in found], title=title, drop=("reasons", "why"))
    for each in found:
        yield Line("", Tone.WARN, do=each.do or f"{each.why}: it follows when that is put right.")


def _row(held: HeldEvents) -> Sequence[object]:
    reasons = [f"{rows:,} x {reason}" for reason, rows in list(held.reasons.items())[:_MOST_REASONS]]
    return held.table, held.day, held.events, held.rejected, held.rule, held.since, held.why, reasons


# ------------------------------------------------------------------ released by a person


@dataclass(frozen=True)
class Released:
    release: Release
    done: Followed


def release(lake: Lake, rejects: Rejects, day: date, reason: str, run: RunInfo, progress: Progress) -> Released:
    """Publish ``day`` without its rejected rows, and everything that follows raw.

    The release is stored first, for a running stream too. Raises :class:`InvalidRequest` if raw lacks the day.
    """
    if TableDay(rejects.raw, day) not in lake.states(lake.catalog.step(rejects.raw)):
        raise InvalidRequest(f"{rejects.raw} has nothing of {day}.", hint=f"See: backfill status {rejects.raw}")
    release = Release(table=rejects.typed, day=day, by=str(run.person), at=clock.now(), reason=reason)
    write_release(lake.storage, release)
    steps = following(lake.with_current(lake.catalog.steps), rejects.raw)
    build = FollowBuild(lake, steps, run, progress, InputMemory(), name=f"release-{rejects.typed}")
    return Released(release, build.publish([day]))


def release_answer(found: Released) -> Answer:
    held = [Line(f"{each.table} {each.day} is held back: {each.why}", Tone.BAD) for each in found.done.held_back]
    facts = (Fact("released", f"{found.release.table} {found.release.day}"), Fact("reason", found.release.reason))
    published = Fact("publication", Id(found.done.publication))
    undo = (f"backfill rollback {found.done.publication}",) if found.done.publication else ()
    return Answer(parts=(*facts, *held, published), next=undo)
