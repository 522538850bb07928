"""Which findings are one incident: a cause at one place, with everything that follows downstream. Pure.

In build order, a finding joins the first of these:

- a fault upstream that can cause such a finding;
- its day's open incident;
- the same fault of its table, beside its days or within the hour;
- a new fault.

An incident open before the fault upstream was seen becomes that fault.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta

from backfill_assets.days import TableDay
from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.findings import FOLLOWING, PENDING, SUSPECTED, Lineage, WrongDay, is_one_fault
from backfill_assets.upkeep.incidents import Incident

ONE_EVENT = timedelta(hours=1)
"""A table's days that go wrong within this time have one fault."""
_ANYWHERE = PENDING - {Cause.FAILED_RUN} | {Cause.DRIFT, Cause.TOO_LATE, Cause.GONE_VERSION}
"""Causes of a source or a declaration, with one incident a table."""


@dataclass(eq=False)
class Root:
    incident: Incident | None = None
    findings: list[WrongDay] = field(default_factory=list)
    follows: list[WrongDay] = field(default_factory=list)
    moved: dict[date, Root] = field(default_factory=dict)
    split_from: Incident | None = None

    @property
    def silent(self) -> bool:
        return self.incident is None and all(each.silent for each in self.findings)

    @property
    def cause(self) -> Cause:
        return self.findings[0].cause if self.findings or self.incident is None else self.incident.cause

    @property
    def table(self) -> str:
        return self.findings[0].table if self.findings or self.incident is None else self.incident.table

    @property
    def saying(self) -> str:
        return self.findings[0].saying if self.findings or self.incident is None else self.incident.saying

    @property
    def days(self) -> set[date]:
        return {each.day for each in self.findings} | set(self.incident.days if self.incident else ())

    @property
    def in_progress(self) -> bool:
        """Until a repair has ended and was proven, nobody knows what is wrong."""
        return self.incident is not None and (self.incident.under_way is not None or self.incident.state == "proving")

    @property
    def is_over(self) -> bool:
        return bool(self.incident and self.incident.attempts) and self.last_proof == "passed"

    @property
    def last_proof(self) -> str:
        return self.incident.attempts[-1].proof if self.incident and self.incident.attempts else ""


def roots_of(
    found: Sequence[WrongDay],
    known: Sequence[Incident],
    lineage: Lineage,
    now: datetime,
    acted_on: Collection[tuple[TableDay, Cause]],
) -> list[Root]:
    """Roots of ``known`` first, then new ones.

    ``acted_on`` is launched, awaited or left to a person for itself; other pending days follow the day they are
    rebuilt with.
    """
    grouping = _Grouping(lineage, now, acted_on)
    for incident in known:
        grouping.add_known(incident)
    for each in found:
        grouping.add(each)
    return grouping.done()


class _Grouping:
    def __init__(self, lineage: Lineage, now: datetime, acted_on: Collection[tuple[TableDay, Cause]]) -> None:
        self._lineage, self._now, self._acted_on = lineage, now, acted_on
        self._roots: list[Root] = []
        self._owners: dict[TableDay, list[Root]] = {}
        self._places: dict[TableDay, list[Root]] = {}

    def add_known(self, incident: Incident) -> None:
        root = Root(incident)
        self._roots.append(root)
        for key in (TableDay(incident.table, day) for day in incident.days):
            self._owners.setdefault(key, []).append(root)
            self._place(key, root)

    def add(self, finding: WrongDay) -> None:
        owner = self._owner(finding)
        if owner is not None and owner.in_progress:
            owner.findings.append(finding)
            return
        above = None if finding.silent else self._above(finding, owner)
        root = above or (None if finding.silent else owner or self._same_fault(finding)) or self._new()
        if owner is not None and owner is not root:
            owner.moved[finding.day] = root
        if above is not None:
            above.follows.append(finding)
            return
        root.findings.append(finding)
        self._place(finding.key, root)

    def done(self) -> list[Root]:
        for each in [root for root in self._roots if root.incident and not root.in_progress]:
            self._split(each)
        for each in [root for root in self._roots if not root.incident and root.findings and not root.silent]:
            self._take_over(each)
        for each in self._roots:
            self._leave_to_graver(each)
        return self._roots

    def _new(self, split_from: Incident | None = None) -> Root:
        self._roots.append(Root(split_from=split_from))
        return self._roots[-1]

    def _place(self, key: TableDay, root: Root) -> None:
        if key.table in self._lineage.seen.step_of:
            there = self._places.setdefault(self._lineage.place(key), [])
            there += [] if root in there else [root]

    # -------------------------------------------------------------- where a finding belongs

    def _owner(self, finding: WrongDay) -> Root | None:
        open_ = (root for root in self._owners.get(finding.key, ()) if root.incident)
        return next((each for each in open_ if each.incident and self._is_about(each, each.incident, finding)), None)

    def _is_about(self, root: Root, incident: Incident, finding: WrongDay) -> bool:
        same = incident.cause is finding.cause or not root.is_over or root.in_progress
        return same and is_one_fault(incident.cause, finding.cause) and is_explained(incident, finding)

    def _above(self, finding: WrongDay, owner: Root | None) -> Root | None:
        is_told = owner is not None and owner.incident is not None and owner.incident.cause is Cause.FAILED_RUN
        if finding.cause is Cause.FAILED_RUN and not is_told and (held := self._held_back_with(finding)):
            return held
        with_another = owner is None and finding.cause in PENDING and finding.what not in self._acted_on
        if finding.cause not in FOLLOWING and not with_another:
            return None
        places = self._lineage.above(finding.key, self._places)
        own = self._lineage.place(finding.key)
        if owner is None and own in self._places and finding.cause is not Cause.HELD_BACK:
            places.append(own)
        roots = (root for place in places for root in self._places[place] if root is not owner)
        return next((each for each in roots if self._leads_to(each, finding, owner)), None)

    def _leads_to(self, root: Root, finding: WrongDay, owner: Root | None) -> bool:
        if root.silent:
            return owner is None and finding.cause in (Cause.UNUSUAL, Cause.DISAGREES)
        if owner is None or owner.incident is None:
            return True
        # What was told just now goes on within a fault above it; what was told before is another one.
        return root.cause not in PENDING and self._now - owner.incident.opened < ONE_EVENT

    def _held_back_with(self, finding: WrongDay) -> Root | None:
        """A run builds all days or none: failed days hold back others."""
        place = self._lineage.place(finding.key).table
        for root in (each for each in self._roots if not each.silent):
            held = [each for each in (*root.findings, *root.follows) if each.cause is Cause.HELD_BACK]
            for each in held:
                same_step = self._lineage.place(each.key).table == place
                if each.run == finding.run if each.run and finding.run else same_step:
                    return root
        return None

    def _same_fault(self, finding: WrongDay) -> Root | None:
        return next((root for root in self._roots if self._is_joined_by(root, finding)), None)

    def _is_joined_by(self, root: Root, finding: WrongDay) -> bool:
        if root.silent or (root.table, root.cause) != (finding.table, finding.cause):
            return False
        if root.is_over and not root.findings and finding.cause not in PENDING:
            return False
        if finding.cause not in PENDING and root.saying not in ("", finding.saying):
            return False
        if (incident := root.incident) is None or finding.cause in _ANYWHERE:
            return True
        is_near = self._lineage.is_beside(finding.table, finding.day, root.days)
        is_tried = bool(incident.attempts) and incident.state != "person"
        return is_near or is_tried or self._now - incident.opened < ONE_EVENT

    # -------------------------------------------------------------- what becomes of open incidents

    def _split(self, root: Root) -> None:
        parts: dict[tuple[Cause, str], list[WrongDay]] = {}
        for each in root.findings:
            parts.setdefault((each.cause, "" if each.cause in PENDING else each.saying), []).append(each)
        if not parts or root.incident is None:
            return
        cause, said = root.incident.cause, root.incident.saying
        kept = min(parts, key=lambda key: (key[0] is not cause, key[1] != said))
        root.findings = parts.pop(kept) if kept[0] is cause else []
        for part in parts.values():
            others = (each for each in self._roots if each is not root and each.findings)
            other = next((each for each in others if self._is_joined_by(each, part[0])), None)
            if other is None and not root.findings:
                # All that is wrong with its days is this: it is diagnosed anew.
                root.findings = part
                continue
            other = other or self._new(root.incident)
            other.split_from = other.split_from or root.incident
            other.findings += part
            root.moved |= {each.day: other for each in part}

    def _take_over(self, root: Root) -> None:
        below = [each for each in self._roots if each.incident and not each.findings and root in each.moved.values()]
        first = next((each for each in below if set(each.moved.values()) == {root} and each is not root), None)
        if first is not None and root.split_from is None:
            root.incident = first.incident
            self._roots.remove(first)

    def _leave_to_graver(self, root: Root) -> None:
        incident = root.incident
        if incident is None or root.findings or root.in_progress or root.is_over or incident.cause in SUSPECTED:
            return
        for key in (TableDay(incident.table, day) for day in incident.days):
            there = self._places.get(self._lineage.place(key), ()) if key.table in self._lineage.seen.step_of else ()
            graver = (each for each in there if each is not root and not each.silent)
            other = next((each for each in graver if any(f.day == key.day for f in each.findings)), None)
            if other is not None:
                root.moved.setdefault(key.day, other)


def is_explained(incident: Incident, finding: WrongDay) -> bool:
    known = finding.cause not in SUSPECTED or not incident.explained
    return known or finding.content in incident.explained or finding.saying in incident.explained


def following(new: Iterable[WrongDay], known: Mapping[str, Sequence[date]]) -> dict[str, tuple[date, ...]]:
    found = {table: set(days) for table, days in known.items()}
    for each in new:
        found.setdefault(each.table, set()).add(each.day)
    return {table: tuple(sorted(days)) for table, days in sorted(found.items())}


def moved_to(root: Root) -> Iterator[tuple[Root, list[date]]]:
    days: dict[Root, list[date]] = {}
    for day, other in sorted(root.moved.items()):
        days.setdefault(other, []).append(day)
    yield from days.items()
