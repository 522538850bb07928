"""Which days of which tables are fresh, stale or missing, and what is under way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date

from backfill_assets import clock
from backfill_assets.answers.books import asked_line, closed_grid
from backfill_assets.answers.held_back import find_held, held_parts
from backfill_assets.answers.signs import beside_the_logs, short_days
from backfill_assets.campaign.look import CampaignDays, campaign_days
from backfill_assets.days import DayRange, TableDay
from backfill_assets.errors import BackfillError
from backfill_assets.external.observe import look_at, tables_of_others
from backfill_assets.lakehouse.campaign_journal import shown_name
from backfill_assets.lakehouse.named_timelines import NamedTimeline
from backfill_assets.lakehouse.plans import kept_plan, plan_ids
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.quarantine import RejectedRows, commonest_reason, rejected_rows
from backfill_assets.landing.zone import LandedSource, LandingZone, landed_source
from backfill_assets.model.current_versions import switch_notes
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.declaration import Step
from backfill_assets.model.drift import Drift, drifts
from backfill_assets.model.graph import expand_tables, steps_of
from backfill_assets.model.left_out import LeftOut
from backfill_assets.plan.records import Plan
from backfill_assets.publish.closed_days import NOTHING_CLOSED, Books
from backfill_assets.publish.log import PublicationLog
from backfill_assets.publish.publisher import Publisher
from backfill_assets.publish.unreadable import Unreadable
from backfill_assets.report.answer import Answer, Days, Fact, Grid, Id, Line, Part, Quantity, Tone, Toned
from backfill_assets.state.campaigns import PlanUnderWay, under_way
from backfill_assets.state.closed import books_of, waiting_rows, with_closed
from backfill_assets.state.damage import damaged_days
from backfill_assets.state.diagnosis import Cause, in_a_word
from backfill_assets.state.edited_logic import EditedLogic, contents_of, edited_logic
from backfill_assets.state.observed import LogView, gc_paused, observe_each
from backfill_assets.state.rolled_back import Undo, UndoIs, rollbacks, undone_days
from backfill_assets.state.status import Statuses, day_statuses, diagnosed
from backfill_assets.stream.lease import HeldEvents
from backfill_assets.text import format_count
from backfill_assets.timeline.view import observe_timeline

CANNOT_BE_READ = "cannot be read"
_GONE = (Cause.LOST_RAW, Cause.LOST_FILES)
_MOST_DAMAGED = 5
_BAD = {Cause.LOST_RAW, Cause.LOST_FILES, Cause.HELD_BACK, Cause.EDITED_LOGIC, Cause.MISSING}


@dataclass(frozen=True)
class FoundStatus:
    steps: Sequence[Step]
    statuses: Statuses
    observed: LogView
    chosen: Sequence[str] = ()
    under_way: Sequence[tuple[PlanUnderWay, Sequence[CampaignDays]]] = ()
    notes: Sequence[str] = ()
    timeline: NamedTimeline | None = None
    damaged: Mapping[TableDay, Sequence[str]] = field(default_factory=dict)
    rejected: Sequence[tuple[RejectedRows, str]] = ()
    held: Sequence[HeldEvents] = ()
    drift: Sequence[tuple[str, Drift]] = ()
    undecided: Mapping[str, Unreadable] = field(default_factory=dict)
    """Tables without statuses, each with the unreadable table to blame."""
    edited: Sequence[EditedLogic] = ()
    landed: Mapping[str, LandedSource] = field(default_factory=dict)
    undone: Mapping[TableDay, Undo] = field(default_factory=dict)
    """Rolled-back days that are not made of the current inputs."""
    books: Books = NOTHING_CLOSED
    waits: Mapping[TableDay, int] = field(default_factory=dict)
    """Rows of raw that wait for closed days."""
    short: Mapping[TableDay, str] = field(default_factory=dict)
    left_out: Sequence[LeftOut] = ()
    others: Mapping[str, Sequence[date] | BackfillError] = field(default_factory=dict)

    def by_cause(self, table: str) -> dict[Cause | None, list[date]]:
        found: dict[Cause | None, list[date]] = {cause: [] for cause in _GONE}
        for day, cause in self.statuses[table].items():
            found.setdefault(cause, []).append(day)
        return {cause: days for cause, days in found.items() if days}


def look_at_main(
    storage: Storage,
    declared: Sequence[Step],
    chosen: Sequence[str],
    days: DayRange | None,
    zone: LandingZone | None = None,
    datasets: Sequence[Dataset] = (),
) -> FoundStatus:
    """Reads logs, names in the landing ``zone``, and reasons of rejected rows; external tables by ``datasets``."""
    with gc_paused():
        observed = observe_each(storage, [table.name for step in declared for table in step.tables])
        steps = observed.with_current(declared)
        statuses = day_statuses(steps, observed, days)
    held = [each for each in _held(storage, declared, observed, chosen) if days is None or each.day in days]
    damaged = damaged_days(storage, observed.sound_versions)
    undone = dict(undone_days(rollbacks(storage), observed.readable(steps), observed, statuses))
    asked = [step for step in declared if not chosen or not set(chosen).isdisjoint(step.table_names)]
    edited = edited_logic(storage, asked, contents_of(observed.states))
    books = books_of(observed, steps, clock.now())
    beside = beside_the_logs(steps, damaged, held, edited, undone)
    statuses = diagnosed(statuses, with_closed(beside, statuses, books))
    going = under_way(PublicationLog(storage))
    plans = [each for each in going if not chosen or each.damage or set(chosen) & set(each.tables)]
    rejected = _rejected(declared, observed, chosen, days)
    return FoundStatus(
        steps=steps,
        statuses={name: by_day for name, by_day in statuses.items() if not chosen or name in chosen},
        observed=observed,
        chosen=chosen,
        under_way=[(each, _campaign_days(storage, each.plan, chosen)) for each in plans],
        notes=switch_notes(asked, observed.switches),
        damaged=damaged,
        others=dict(_moved_there(storage, asked, datasets)),
        rejected=[
            (each, commonest_reason(storage, observed.versions[each.quarantine], each.quarantine, each.worst))
            for each in rejected
        ],
        held=held,
        drift=list(_drift(declared, observed, chosen, days)),
        undecided={name: each for name, each in observed.undecided(declared).items() if not chosen or name in chosen},
        edited=edited,
        landed={
            step.name: landed_source(zone, storage, step.source, step.name)
            for step in asked
            if zone is not None and step.source
        },
        undone=undone,
        books=books,
        waits=waiting_rows(observed, steps, books),
        short={key: words for step in observed.readable(asked) for key, words in short_days(step, observed, days)},
    )


def look_at_timeline(
    publisher: Publisher, name: str, declared: Sequence[Step], chosen: Sequence[str], days: DayRange | None
) -> FoundStatus:
    timeline, observed = observe_timeline(publisher, [table.name for step in declared for table in step.tables], name)
    steps = observed.with_current(declared)
    statuses = day_statuses(steps, observed, days)
    shown = {name: by_day for name, by_day in statuses.items() if not chosen or name in chosen}
    rejected = [(each, "") for each in _rejected(declared, observed, chosen, days)]
    return FoundStatus(steps, shown, observed, chosen, timeline=timeline, rejected=rejected)


def _moved_there(
    storage: Storage, asked: Sequence[Step], datasets: Sequence[Dataset]
) -> Iterator[tuple[str, Sequence[date] | BackfillError]]:
    for external, first_day in tables_of_others([step for step in asked if step.external], datasets):
        try:
            look = look_at(PublicationLog(storage), external, first_day, clock.today())
        except BackfillError as error:
            yield external.name, error
        else:
            yield external.name, tuple(look.moved.changed)


def _rejected(
    declared: Sequence[Step], observed: LogView, tables: Sequence[str], days: DayRange | None
) -> list[RejectedRows]:
    return rejected_rows(
        _with_origins(declared, tables),
        {key: state for key, state in observed.states.items() if days is None or key.day in days},
    )


def _held(storage: Storage, declared: Sequence[Step], observed: LogView, tables: Sequence[str]) -> Iterator[HeldEvents]:
    asked = {name for step in _with_origins(declared, tables) for name in step.table_names}
    return (each for each in find_held(storage, observed.states) if each.table in asked)


def _drift(
    declared: Sequence[Step], observed: LogView, tables: Sequence[str], days: DayRange | None
) -> Iterator[tuple[str, Drift]]:
    for step in _with_origins(declared, tables):
        own = {key.day: each.content for key, each in observed.states.items() if key.table == step.name}
        measured = {day: content.metrics for day, content in own.items() if content}
        for each in drifts(step.source, measured, days.last if days else None) if step.source else ():
            if days is None or each.last >= days.first:
                yield step.name, each


def _with_origins(declared: Sequence[Step], tables: Sequence[str]) -> Sequence[Step]:
    return steps_of(declared, expand_tables(declared, tables, upstream=True)) if tables else declared


def _campaign_days(storage: Storage, plan: str, tables: Sequence[str]) -> list[CampaignDays]:
    if plan not in plan_ids(storage):
        return []  # The plan was removed.
    try:
        found = campaign_days(storage, Plan.from_json(kept_plan(storage, plan), id=plan))
    except BackfillError:
        return []  # Written by other code, or damaged.
    return [each for each in found if not tables or each.table in tables]


# ------------------------------------------------------------------ the answer


def status_answer(found: FoundStatus) -> Answer:
    nothing = not any(found.statuses.values()) and not found.undecided
    waits = any(_waiting(found, table) for table in found.landed) or any(found.others.values())
    if nothing and not waits:
        return Answer(parts=(*_before(found), Line("Nothing was published yet.")))
    lacks: list[Part] = [rejected_table(found.rejected), *_look_at_rejected(found)] if found.rejected else []
    lacks += [drift_table(found.drift)] if found.drift else []
    needs = (
        *(*_damaged(found), *held_parts(found.held), *_closed_days(found)),
        *(*_undone_days(found), *_short_days(found), *_adopted(found)),
    )
    parts = (*_before(found), *_unreadable(found), _summary(found), *needs, *lacks)
    sections = [*(_days(found, table) for table in found.chosen), *(_campaign(*each) for each in found.under_way)]
    return Answer(parts=parts, sections=tuple(sections))


def _left_out(found: Sequence[LeftOut]) -> Grid:
    rows = [(each.what, " ".join(each.error.message.split()), each.error.hint or "") for each in found]
    return Grid("left_out", ("left out", "why", "what to do"), rows, title="Declared wrong", one_by_one=True)


def _before(found: FoundStatus) -> Iterator[Part]:
    if found.left_out:
        yield _left_out(found.left_out)
    if found.timeline is not None:
        yield Fact("timeline", shown_name(found.timeline.name))
        yield Fact("as of entry", found.timeline.base.sequence)
    if found.observed.open:
        yield Fact("under way", [Id(each) for each in found.observed.open])
        yield Line("The next run or rollback finishes what a dead process left.", Tone.WARN)
    for note in found.notes:
        yield Line(note, Tone.WARN)
    for each in found.edited:
        yield Line(f"{each}.", Tone.BAD, each.next_step)


def campaign_table(days: Sequence[CampaignDays]) -> Grid:
    columns = ("table", "planned", "staged", "held back", "published", "unchanged", "left")
    rows = [
        (
            each.table,
            len(each.planned),
            *map(Days.of, (each.staged, each.held_back, each.published, each.unchanged, each.left)),
        )
        for each in days
    ]
    return Grid("days", columns, rows, drop=("planned", "unchanged"))


def _campaign(plan: PlanUnderWay, days: Sequence[CampaignDays]) -> Answer:
    facts = (Fact("plan", Id(plan.plan)), Fact("since", plan.since), Fact("tables", list(plan.tables)))
    damage = (Line(plan.damage, Tone.BAD, name="damage"),) if plan.damage else ()
    shown = (campaign_table(days),) if days else ()
    next_command = () if plan.damage else (f"backfill status {plan.plan}",)
    return Answer("A campaign is under way", (*facts, *damage, *shown), next=next_command, name=plan.plan)


def _summary(found: FoundStatus) -> Grid:
    timeline, rows = found.timeline, []
    for name in found.statuses:
        held = timeline.held(name) if timeline else {}
        for cause, days in found.by_cause(name).items():
            own = [Days.of(day for day in days if day in held)] if timeline else []
            rows.append([name, _toned(cause), len(days), Days.of(days), *own])
        if name in found.undecided:
            rows.append([name, *_without_status(found, name), *([Days(())] if timeline else [])])
        waiting = _waiting(found, name)
        if count := sum(waiting.values()):
            said = Toned(f"{Cause.LANDED}: {format_count(count, 'file')}", Tone.WARN)
            rows.append([name, said, len(waiting), Days.of(waiting), *([Days(())] if timeline else [])])
        if not isinstance(moved := found.others.get(name, ()), BackfillError) and moved:
            said = Toned("written since it was looked at", Tone.WARN)
            rows.append([name, said, len(moved), Days.of(moved), *([Days(())] if timeline else [])])
        if not found.statuses[name] and not waiting and not moved and name not in found.undecided:
            rows.append([name, Toned("nothing published", Tone.QUIET), 0, Days(()), *([Days(())] if timeline else [])])
    columns = ("table", "status", "days", "which days", *(["of its own"] if timeline else []))
    return Grid("tables", columns, rows, groups=("table",))


def _unreadable(found: FoundStatus) -> Iterator[Line]:
    for error in (each for each in found.others.values() if isinstance(each, BackfillError)):
        yield Line(error.message, Tone.BAD, error.hint or "")
    for each in {each.table: each for each in found.undecided.values()}.values():
        yield Line(f"{each.table} cannot be read: {each.why}.", Tone.BAD, each.next_step)


def _without_status(found: FoundStatus, table: str) -> tuple[Toned, int, Days]:
    days = [key.day for key, state in found.observed.states.items() if key.table == table and state.content]
    broken = table in found.observed.unreadable
    words = CANNOT_BE_READ if broken else f"not known: {found.undecided[table].table} cannot be read"
    return Toned(words, Tone.BAD if broken else Tone.WARN), len(days), Days.of(days)


def _waiting(found: FoundStatus, table: str) -> dict[date, int]:
    landed = found.landed.get(table)
    return landed.waiting(landed.days) if landed else {}


UNDO_IS = {
    UndoIs.HELD: "it stays until an input changes",
    UndoIs.OVER: "an input has changed since: repairs builds it again, by the version that was put back",
    UndoIs.ASKED: "an input has changed since, and rows of raw were withdrawn with it: a person decides",
}


def _undone_days(found: FoundStatus) -> Iterator[Grid]:
    groups: dict[tuple[str, Undo], list[date]] = {}
    for key, undo in found.undone.items():
        if key.table in found.statuses:
            groups.setdefault((key.table, undo), []).append(key.day)
    rows = [(table, Days.of(days), Id(undo.rollback), UNDO_IS[undo.state]) for (table, undo), days in groups.items()]
    if rows:
        title = "Rolled back, and older than their inputs"
        yield Grid("rolled_back", ("table", "which days", "rolled back by", "what follows"), rows, title=title)


def _closed_days(found: FoundStatus) -> Iterator[Part]:
    for each in found.observed.asked_of_books:
        yield asked_line(each)
    shown = [each for each in found.books.closings if any(map(each.concerns, found.statuses))]
    if shown:
        yield closed_grid(shown)
    rows = [(table, day, count) for (table, day), count in sorted(found.waits.items()) if table in found.statuses]
    if rows:
        yield Grid(
            "waiting", ("table", "day", "rows that wait"), rows, title="Received for closed days", groups=("table",)
        )


def _short_days(found: FoundStatus) -> Iterator[Grid]:
    rows = [(table, day, words) for (table, day), words in found.short.items()]
    if rows:
        yield Grid("short", ("table", "day", "note"), rows, title="Days with fewer rows than usual")


def _adopted(found: FoundStatus) -> Iterator[Grid]:
    groups: dict[tuple[str, str], list[date]] = {}
    for (table, day), state in sorted(found.observed.states.items()):
        if table in found.statuses and day in found.statuses[table] and state.content and state.content.is_adopted:
            groups.setdefault((table, state.content.breaks), []).append(day)
    rows = [(table, len(days), Days.of(days), breaks) for (table, breaks), days in groups.items()]
    if rows:
        columns = ("table", "days", "which days", "what they break")
        yield Grid("adopted", columns, rows, title="Computed by: adopted", groups=("table",))


def _days(found: FoundStatus, table: str) -> Answer:
    step = next(step for step in found.steps if table in step.table_names)
    own = found.timeline.held(table) if found.timeline else {}
    closed = {day: each.by for day in found.statuses[table] if (each := found.books.closing(table, day))}
    rows = []
    for day, cause in found.statuses[table].items():
        state = found.observed.states.get(TableDay(table, day))
        content = state.content if state else None
        rows_in, code, checksum = (content.rows, content.code_version, content.checksum) if content else (None, "", "")
        origin = "of its own" if day in own else Id(state.publication) if state else ""
        by = [closed.get(day, "")] if closed else []
        rows.append([day, _toned(cause), *by, rows_in, code, origin, checksum])
    columns: tuple[str, ...] = (
        "day",
        "status",
        *(["closed by"] if closed else []),
        "rows",
        "code",
        "publication",
        "checksum",
    )
    version = () if step.source else (Fact("current version", step.current),)
    return Answer(table, (*version, Grid("days", columns, rows, drop=("checksum", "code"))))


def _damaged(found: FoundStatus) -> Iterator[Line]:
    shown = [key for key in found.damaged if key.day in found.statuses.get(key.table, {})]
    for table, day in shown[:_MOST_DAMAGED]:
        yield Line(f"{table} {day} is damaged: files are gone.", Tone.BAD, f"backfill show {table} {day}")


def rejected_table(found: Sequence[tuple[RejectedRows, str]]) -> Grid:
    columns = ("table", "received", "rejected", "share", "days", "worst day", "commonest reason")
    rows = [
        (
            each.table,
            each.received_in_all,
            sum(each.rejected.values()),
            each.share,
            Days.of(each.rejected),
            each.worst,
            reason,
        )
        for each, reason in found
    ]
    return Grid("rejected", columns, rows, title="Received rows that are in quarantine", drop=("received",))


def drift_table(found: Sequence[tuple[str, Drift]]) -> Grid:
    columns = ("table", "field", "how", "since", "days", "share", "example")
    rows = [
        (table, each.field, each.kind.value, each.since, each.days, Quantity(each.share, "share"), each.example)
        for table, each in found
    ]
    return Grid("drift", columns, rows, title="Fields that are not as declared", drop=("share",))


def _look_at_rejected(found: FoundStatus) -> Iterator[Line]:
    for rows, _ in found.rejected:
        yield Line("", do=f"backfill raw quarantine {rows.quarantine} {rows.worst}")


def _toned(cause: Cause | None) -> Toned:
    return Toned(in_a_word(cause), Tone.GOOD if cause is None else Tone.BAD if cause in _BAD else Tone.WARN)
