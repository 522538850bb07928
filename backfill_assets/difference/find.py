"""Finds the difference of a plan's campaign and keeps it with the plan: what the command and the UI ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime

from backfill_assets.difference.agreement import SameTotal
from backfill_assets.difference.counts import complete
from backfill_assets.difference.kept import Difference, difference_of
from backfill_assets.difference.letter import DeclaredOfTables
from backfill_assets.difference.records import DayIs, TableCompared
from backfill_assets.difference.table_comparison import NOTHING, SAMPLE_ROWS, TableComparison
from backfill_assets.errors import InvalidRequest
from backfill_assets.judge.engine import DayFiles
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import campaign_of
from backfill_assets.lakehouse.delta_log import newest_version, read_log
from backfill_assets.lakehouse.document import Documents
from backfill_assets.lakehouse.plans import PLANS
from backfill_assets.lakehouse.records import DayContent, DayState, InputRead, logical_of
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.model.declaration import Step
from backfill_assets.model.rules import TotalAgrees
from backfill_assets.plan.expectations import Expectation
from backfill_assets.plan.keep import shadow_steps
from backfill_assets.plan.records import Plan
from backfill_assets.published.observed import LogView, observe
from backfill_assets.rebuild.lake import Lake, Progress
from backfill_assets.rebuild.overlay import NOTHING_STAGED, OverlaidDay
from backfill_assets.rebuild.shadow import ShadowStep, StagedDays, days_staged_in, with_days_that_stay


def declared_of(steps: Sequence[Step]) -> DeclaredOfTables:
    """What the answer about a difference has to know of the declared tables."""
    tables = [table for step in steps for table in step.tables]
    totals = (
        SameTotal(table.name, rule.column, rule.fact, rule.fact_total)
        for table in tables
        for rule in table.rules
        if isinstance(rule, TotalAgrees)
    )
    return DeclaredOfTables(frozenset(each.name for each in tables if each.layer == "report"), tuple(totals))


def compare(
    lake: Lake,
    steps: Sequence[ShadowStep],
    staged: StagedDays,
    progress: Progress,
    sample_rows: int = SAMPLE_ROWS,
    *,
    known: Sequence[TableCompared] = (),
    expectations: Sequence[Expectation] = (),
) -> tuple[list[TableCompared], int]:
    """What publishing ``staged`` of ``steps`` would change, table by table, as of which entry of the publication log.

    ``known`` are comparisons from before: a table is not read again if both sides of its days are as they were. Where
    one of ``expectations`` says that only one column changes, the others are compared.
    """
    observed = observe(lake.storage, [table.name for each in steps for table in each.step.tables])
    before = {table.table: table for table in known}
    found = []
    for each in steps:
        for table in each.step.tables:
            main = _Main.of(lake.storage, table.name, observed)
            beside = _StagedBesideMain(lake, table, each.step.cadence, each.days, progress, staged, main)
            only = [one.subject for one in expectations if one.only and one.table in ("", table.name)]
            found.append(beside.compare(sample_rows, before.get(table.name), only))
    return found, observed.sequence


@dataclass(frozen=True)
class _Main:
    """One table of main: the files it has now, as compare-and-swap compares them, and what the log knows of its days.

    While a publication of it is under way, as of the last closed entry.
    """

    version: int | None
    physical: Mapping[date, str]
    states: Mapping[date, DayState]

    @classmethod
    def of(cls, storage: Storage, table: str, observed: LogView) -> _Main:
        under_way = any(table in tables for tables in observed.writing.values())
        version = observed.versions.get(table) if under_way else newest_version(storage, table)
        files = {} if version is None else read_log(storage, table, version).by_day()
        states = {day: state for (name, day), state in observed.states.items() if name == table}
        return cls(version, {day: fingerprints.physical(paths) for day, paths in files.items()}, states)

    def content(self, day: date) -> DayContent | None:
        """What a day holds; None for a foreign write, whose content is unknown until it is read."""
        state, physical = self.states.get(day), self.physical.get(day, fingerprints.EMPTY_DAY)
        if state is not None and state.content is not None and state.physical == physical:
            return state.content
        return None if day in self.physical else NOTHING

    def logical(self, day: date) -> str:
        return logical_of(self.states.get(day), self.physical.get(day, fingerprints.EMPTY_DAY))


@dataclass(frozen=True)
class _StagedBesideMain(TableComparison):
    """One table: its staged days and those of main."""

    held: StagedDays
    main: _Main

    @property
    def staged(self) -> Mapping[date, OverlaidDay]:
        return self.held.overlay.days.get(self.table.name, {})

    def how(self, day: date) -> DayIs:
        if (staged := self.staged.get(day)) is not None:
            return "equal" if _same(staged.content, self.main.logical(day)) else "compared"
        absent: tuple[tuple[DayIs, Mapping[str, frozenset[date]]], ...] = (
            ("held back", self.held.failed),
            ("left out", self.held.left_out),
            ("unchanged", self.held.unchanged),
        )
        return next((how for how, days in absent if day in days.get(self.table.name, ())), "not staged")

    def logicals(self, day: date) -> tuple[str, str]:
        staged = self.staged.get(day)
        return self.main.logical(day), staged.content.logical if staged else ""

    def days_as_they_are(self, hows: Mapping[date, DayIs]) -> Mapping[date, DayContent]:
        """Days that would stay as they are. What is added up of them and was not measured is read from main.

        All days are added up but those whose turn has not come.
        """
        # The rows of an equal day are the same, and their sums were measured when they were staged.
        held = {
            day: self.staged[day].content if how == "equal" else self.main.content(day)
            for day, how in hows.items()
            if how != "compared"
        }
        added_up = {day: content for day, content in held.items() if hows[day] != "not staged" or content is None}
        found = {**held, **complete(self.lake, self.table, added_up, self.main.version)}
        return {day: content for day, content in found.items() if content is not None}

    def files(self, days: Sequence[date]) -> tuple[DayFiles, DayFiles]:
        storage, read = self.lake.storage, self._read_of(days)
        return NOTHING_STAGED.files(storage, read), self.held.overlay.files(storage, read)

    def _read_of(self, days: Sequence[date]) -> InputRead:
        return InputRead(table=self.table.name, version=self.main.version, days=dict.fromkeys(days, ""))


def _same(staged: DayContent, in_main: str) -> bool:
    """Are both sides equal by checksum? A day that was never published equals an empty one."""
    return staged.logical == in_main or (staged.rows == 0 and in_main == fingerprints.NEVER_PUBLISHED)


def find_difference(
    lake: Lake,
    plan: Plan,
    progress: Progress,
    sample_rows: int = SAMPLE_ROWS,
    *,
    staged: StagedDays | None = None,
    known: Sequence[TableCompared] = (),
) -> Difference:
    """Compare what the campaign of ``plan`` has staged with main, judge it, and keep it for others.

    With ``staged``, compare only that. ``known`` are earlier comparisons: only tables that moved since are read again.
    Raises :class:`InvalidRequest` when nothing is staged: before the campaign ran, and after it was cut over.
    """
    steps = shadow_steps(lake.catalog, plan)
    tables = [table.name for each in steps for table in each.step.tables]
    found_staged = staged or days_staged_in(lake.storage, campaign_of(plan.id), tables)
    if not any(found_staged.overlay.days.values()):
        raise InvalidRequest(f"Nothing of {plan.id} is staged.", hint=f"backfill run {plan.id} stages it.")
    if staged is None:
        found_staged = with_days_that_stay(lake.publisher, steps, found_staged)
    found, log_entry = compare(
        lake, steps, found_staged, progress, sample_rows, known=known, expectations=plan.expectations
    )
    difference = difference_of(plan, found, log_entry=log_entry, made_at=datetime.now(UTC).replace(microsecond=0))
    keep_difference(lake.storage, difference)
    return difference


def last_difference(storage: Storage, plan: str) -> Difference | None:
    """The difference that was found last, without Spark; None if none was found yet."""
    return _kept(storage).get(f"{plan}.difference")


def keep_difference(storage: Storage, difference: Difference) -> None:
    """Keep the newest difference of a plan; what was kept before is replaced."""
    _kept(storage).replace(f"{difference.plan}.difference", difference)


def _kept(storage: Storage) -> Documents[Difference]:
    return Documents(storage, PLANS, Difference, "Remove it: backfill diff PLAN finds it again.")
