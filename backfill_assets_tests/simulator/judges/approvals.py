"""What a campaign publishes is what people have approved, day by day; or what moved since is within what was expected.

An approval is of what was seen: rows before and rows after. Beside that the model knows the plans, and what their
expectations say of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from backfill_assets.days import TableDay
from backfill_assets.difference.difference import fingerprint_of
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.campaign_journal import plan_of
from backfill_assets.lakehouse.records import Publication
from backfill_assets.plan.expectations import ROWS, Expectation
from backfill_assets.plan.records import Plan
from backfill_assets.settings import ApprovalRule
from backfill_assets_tests.simulator.chain import measured
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import NOTHING, Names, RowsOfTables

Sides = Mapping[TableDay, tuple[Names, Names]]
"""The rows of a day before and after."""


@dataclass
class ApprovalJudge:
    """Asked about each publication before it is made: what main shows now is what it would replace."""

    tables: Mapping[str, TableJudge]
    rule: ApprovalRule
    tally: Counter[str]
    plans: dict[str, Plan] = field(default_factory=dict)
    """What people have planned, by id, in their order."""
    planned_by: dict[str, str] = field(default_factory=dict)
    given: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    """Who has approved which difference, by plan."""

    def begin_as(self, other: ApprovalJudge) -> None:
        self.plans.update(other.plans)
        self.planned_by.update(other.planned_by)
        self.given = {plan: set(given) for plan, given in other.given.items()}

    def gives(self, plan: str, person: str, fingerprint: str) -> None:
        """A person is about to approve a difference: whether that gets into the journal, the judge does not know."""
        self.given.setdefault(plan, set()).add((person, fingerprint))

    def covers(self, made: Publication, rows: RowsOfTables) -> None:
        plan = self.plans.get(plan_of(made.provenance.campaign))
        if plan is None or made.provenance.undoes:
            return
        given, sides = self.given.get(plan.id, set()), self._sides(made, rows)
        approved = {seen for _, seen in given if self._enough(plan, [who for who, of in given if of == seen])}
        assert approved, f"{made.id} publishes {plan.id}, which {sorted(given)} approved: that is not enough"
        if fingerprint_of({key: (_logical(was), _logical(now)) for key, (was, now) in sides.items()}) in approved:
            self.tally["published as approved"] += 1
            return
        self.tally["published as expected"] += 1
        for each in plan.expectations:
            broken = [key for key, (was, now) in sides.items() if not _holds(each, key, was, now)]
            assert not broken, f"{made.id} publishes what nobody has approved: {broken[0]} is not as expected, {each}"

    def _enough(self, plan: Plan, people: Iterable[str]) -> bool:
        able = {who for who in people if not plan.terms.approvers or who in plan.terms.approvers}
        if self.rule is ApprovalRule.ANOTHER_PERSON:
            able.discard(self.planned_by[plan.id])
        return len(able) >= plan.terms.approvals

    def _sides(self, made: Publication, rows: RowsOfTables) -> Sides:
        """Each day as it was when it was staged, which compare-and-swap has to find there, and as it would be."""
        found = {}
        for change in made.tables:
            for day in change.days:
                files, judge = frozenset(day.expected.files), self.tables[change.table]
                images = (days.get(day.day, NOTHING) for days in judge.days)
                was = next((image for image in images if image.files == files), NOTHING)
                before = tuple(was.rows.elements()) if day.expected.publication else None
                found[TableDay(change.table, day.day)] = (before, rows[change.table][day.day])
        return found  # type: ignore[return-value]


def _logical(names: Names | None) -> str:
    if names is None:
        return fingerprints.NEVER_PUBLISHED
    known = measured(names)
    return fingerprints.logical(known["rows"], str(known["checksum"]))


def _holds(expectation: Expectation, key: TableDay, was: Names, now: Names) -> bool:
    """Of one day: the expectations here are those of a day, or that nothing changes."""
    if key.table != expectation.table:
        return True
    before, after = (_figure(expectation, names or ()) for names in (was, now))
    if expectation.limit is None or not before:
        return before == after
    return abs(after - before) * 100 < expectation.limit * before


def _figure(expectation: Expectation, names: Names) -> Decimal:
    return Decimal(len(names) if expectation.subject == ROWS else sum(int(n.rpartition("=")[2]) for n in names))
