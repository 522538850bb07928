"""What runs by itself repairs what is wrong and nothing else, never twice at once, and never what a person put back.

A day of the chain is wrong when it is not there though its inputs are, when its files are not those of its publication,
or when it was made of other inputs than there are. It is asked of the model and of files, never of the package.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from backfill_assets.days import TableDay
from backfill_assets.lakehouse.records import Publication
from backfill_assets.upkeep.incidents import Incident, RepairAttempt
from backfill_assets_tests.simulator.chain import COMPUTED, DAYS, STEP_OF
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import Rows, Wishes
from backfill_assets_tests.simulator.orchestrator import Orchestrator

KEYS = tuple(TableDay(step.name, day) for step in COMPUTED for day in step.cadence.starts(DAYS))
_COMPUTED = {step.name for step in COMPUTED}
_MOVES_FILES = ("rollback", "compact")
_A_DAY = timedelta(days=1)
Inputs = Mapping[TableDay, Rows]


@dataclass(frozen=True)
class Made:
    """Of which rows a day was made; or, ``by_hand``, beside which rows a person put it back."""

    inputs: Inputs
    by_hand: bool = False
    there: bool = True
    """False where a person has taken it away."""
    rows: Rows = field(default_factory=Counter)


@dataclass
class HealingJudge:
    """Asked about each publication once it is closed, each launch, and in the end."""

    tables: Mapping[str, TableJudge]
    log: LogJudge
    wishes: Mapping[str, Wishes]
    orchestrator: Orchestrator
    published: Callable[[str], Publication | None]
    """What was asked for under an id."""
    repairs: set[str] = field(default_factory=set)
    """The publications of repairs."""
    made: dict[TableDay, Made] = field(default_factory=dict)
    """Of each day that is published, or that a person has taken away."""
    _before: dict[str, dict[TableDay, Made | None]] = field(default_factory=dict)
    _wrong_at: dict[datetime, set[TableDay]] = field(default_factory=dict)
    """What was wrong at any moment of a look, by the moment at which it began."""

    # ------------------------------------------------------------------ what is wrong

    def looks(self, now: datetime) -> None:
        self._wrong_at[now] = self.wrong()

    def moved(self) -> None:
        """Something was published, or is lost: what the newest look may see."""
        if self._wrong_at:
            self._wrong_at[max(self._wrong_at)] |= self.wrong()

    def wrong(self) -> set[TableDay]:
        return {key for key in KEYS if self._is_wrong(key)}

    def _is_wrong(self, key: TableDay) -> bool:
        inputs = inputs_of(key)
        made = self.made.get(key)
        if made is None or not (made.there or any(map(self.is_there, inputs))):
            return self._is_foreign(key) or any(map(self.is_there, inputs))
        if self._is_foreign(key) or self._has_lost_files(key):
            return True
        return any(self._is_foreign(each) or self._rows(each) != made.inputs.get(each, Counter()) for each in inputs)

    def is_there(self, key: TableDay) -> bool:
        return self.made[key].there if key in self.made else key.table not in _COMPUTED and key in self.log.last

    def _version(self, table: str) -> int:
        """Half a publication is seen by nobody."""
        is_written = any(table in self.wishes[each].tables for each in self.log.open)
        return self.log.map.get(table, -1) if is_written else self.tables[table].version

    def _is_foreign(self, key: TableDay) -> bool:
        judge, version, last = self.tables[key.table], self._version(key.table), self.log.last.get(key)
        if version < 0:
            return False
        wanted = judge.commits[last].after[key.day].files if last else frozenset()
        shown = self.log.map.get(key.table, -1)
        return any(judge.at(each, key.day).files != wanted for each in {version, shown} if each >= 0)

    def _has_lost_files(self, key: TableDay) -> bool:
        judge = self.tables[key.table]
        return any(f"{key.table}/{path}" in judge.lost for path in judge.at(self._version(key.table), key.day).files)

    def _rows(self, key: TableDay) -> Rows:
        version = self.log.map.get(key.table)
        return Counter() if version is None else self.tables[key.table].at(version, key.day).rows

    # ------------------------------------------------------------------ publications

    def closed(self, publication: str, versions: Mapping[TableDay, str | None]) -> None:
        """``versions`` are those of its days; None for a day that is published no more."""
        before = self._before[publication] = {key: self.made.get(key) for key in versions if key in KEYS}
        for key, was in before.items():
            made = self._made(publication, key, versions)
            if publication in self.repairs:
                self._judge_repair(publication, key, was, made)
            self.made.pop(key, None)
            if made is not None and (made.by_hand or versions[key] is not None):
                self.made[key] = replace(made, there=versions[key] is not None)

    def _made(self, publication: str, key: TableDay, own: Collection[TableDay]) -> Made | None:
        """Of inputs that were published together with it, as they were published."""
        asked, wishes = self.published(publication), self.wishes[publication]
        if wishes.kind == "compact":
            return self.made.get(key)
        undone = asked.provenance.undoes if asked and wishes.kind == "rollback" else ""
        if undone and key in self._before.get(undone, {}):
            if self.wishes[undone].kind in _MOVES_FILES:
                return self._before[undone][key]
            return Made({each: self._rows(each) for each in inputs_of(key)}, by_hand=True, rows=self._rows(key))
        read = {each: Counter(wishes.inputs.get(each.table, {}).get(each.day, ())) for each in inputs_of(key)}
        return Made({each: self._rows(each) if each in own else rows for each, rows in read.items()})

    def _judge_repair(self, publication: str, key: TableDay, before: Made | None, made: Made | None) -> None:
        """Until an input changes, a day stays as a person has put it back."""
        if before is None or made is None or not before.by_hand or before.inputs != made.inputs:
            return
        assert self._rows(key) == before.rows, f"{publication} repairs {key} back, which a person has rolled back"

    # ------------------------------------------------------------------ launches

    def launched(self, attempt: RepairAttempt) -> None:
        """All that it builds is wrong, or made of what it builds; and nothing else is building it."""
        keys = {TableDay(table, day) for table, days in attempt.days.items() for day in days}
        wrong = self._wrong_at[attempt.at]
        right = [key for key in sorted(keys) if key not in wrong and keys.isdisjoint(inputs_of(key))]
        assert not right, f"{attempt.title} builds what is right: {right}"
        for other in (each.attempt for each in self.orchestrator.alive() if each.attempt is not attempt):
            both = [key for key in keys if key.day in other.days.get(key.table, ())]
            assert not both, f"{attempt.title} and {other.title} build {both} at once"
        most = self.orchestrator.bounds.core_seconds
        spent = sum(self._spent(attempt.at), Decimal(0))
        assert most is None or spent <= most, f"{attempt.title}: {spent} core seconds were spent of {most}"

    def _spent(self, until: datetime) -> Iterator[Decimal]:
        launched = (each.attempt for each in self.orchestrator.backfills.values())
        return (each.core_seconds for each in launched if until - _A_DAY < each.at <= until)

    # ------------------------------------------------------------------ in the end

    def judge_incidents(self, found: Iterable[Incident]) -> None:
        """As often as the bounds allow, with pauses, and what was told of one is told to be over."""
        bounds = self.orchestrator.bounds
        for each in found:
            for day in each.days:
                tried = [attempt for attempt in each.attempts if day in attempt.evidence]
                states = Counter(attempt.evidence[day] for attempt in tried)
                assert max(states.values(), default=0) <= bounds.attempts, f"{each.id} was tried {states}"
            assert len(set(each.told)) == len(each.told), f"{each.id} was told {each.told}"
            if each.closed and each.told:
                assert each.told[-1] == "closed", f"{each.id} is over, and nobody was told: {each.told}"


def inputs_of(key: TableDay) -> list[TableDay]:
    """What a day is made of, by any version."""
    step = STEP_OF[key.table]
    if not step.versions:
        return []
    period = step.cadence.period(key.day)
    return [TableDay(read.table, day) for read in step.versions[0].reads for day in read.days(period)]


def made_of(keys: Iterable[TableDay]) -> set[TableDay]:
    """Days, and all that is made of them."""
    found = set(keys)
    for key in KEYS:
        if not found.isdisjoint(inputs_of(key)):
            found.add(key)
    return found


def of_table(table: str) -> set[TableDay]:
    """All days of a table, and all that is made of them."""
    return made_of(key for key in KEYS if key.table == table)


def incidents_in(contents: Mapping[str, object]) -> list[Incident]:
    """All that are kept, open or closed."""
    kept = ("_incidents/open/", "_incidents/closed/")
    found = (data for path, data in sorted(contents.items()) if path.startswith(kept))
    return [Incident.model_validate(json.loads(data)) for data in found if isinstance(data, bytes)]
