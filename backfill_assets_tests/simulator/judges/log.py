"""Whole: the publication log judged entry by entry. Readers who pin the last closed map see just what the model has."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import pyarrow as pa

from backfill_assets.days import DayRange, TableDay, parse_day
from backfill_assets.lakehouse import fingerprints
from backfill_assets.publish.log import HEAD, LOG_TABLE
from backfill_assets_tests.simulator.judges.origins import OriginJudge
from backfill_assets_tests.simulator.judges.tables import Held, TableJudge, is_whole
from backfill_assets_tests.simulator.judges.verdict import passed_over
from backfill_assets_tests.simulator.model import NOTHING, Rows, Wishes
from backfill_assets_tests.simulator.staging import content


@dataclass(frozen=True)
class Known:
    """A day as the closed entries leave it; ``rows`` is None where a foreign writer has a hand in it."""

    version: int
    rows: Rows | None


class LogJudge:
    """Follows ``_publications``, and replays its closed entries one after the other."""

    def __init__(
        self,
        held: Held,
        wishes: Mapping[str, Wishes],
        tables: Mapping[str, TableJudge],
        closed: Callable[[str, Mapping[TableDay, str | None], Mapping[str, int]], None],
    ) -> None:
        self.held = held
        self._told = closed
        self.version = -1
        self.map: dict[str, int] = {}
        self.outcomes: dict[str, str] = {}
        self.closed_at: dict[str, int] = {}
        """The version of the log at which each publication was closed."""
        self.open: set[str] = set()
        self.current: dict[str, str] = {}
        """The versions that are current, by step, as the closed entries leave them."""
        self.last: dict[TableDay, str] = {}
        """The publication that each day shows, for readers of the log."""
        self.left: dict[str, set[str]] = {}
        """The tables that show what was given up: nobody could put them back."""
        self.closed: set[TableDay] = set()
        """Days that nobody may change: what is prepared comes before it, or is refused."""
        self._origins = OriginJudge()
        self._wishes = wishes
        self._tables = tables
        self._switched: dict[str, dict[str, tuple[str, str]]] = {}
        self._aborting: set[str] = set()
        self._before: dict[str, dict[TableDay, Known]] = {}
        self._model: dict[TableDay, Known] = {}
        self._made_of: dict[TableDay, Mapping[str, int]] = {}
        self._shown: list[tuple[int, Mapping[TableDay, str], Mapping[str, int]]] = []

    def follow(self) -> None:
        """Check every entry since the last look. The tables must have been followed already."""
        folder = f"{LOG_TABLE}/_delta_log"
        while is_whole(data := self.held.contents.get(f"{folder}/{self.version + 1:020d}.json")):
            self.version += 1
            actions = [json.loads(line) for line in data.splitlines()]
            for add in (action.get("add", {}) for action in actions):
                if add.get("dataChange"):  # others may put the rows of several entries into one file: nothing new
                    rows = self.held.contents[f"{LOG_TABLE}/{add['path']}"]
                    assert isinstance(rows, pa.Table)
                    with passed_over():
                        self._entry(rows.to_pylist())
            for head in (action["commitInfo"][HEAD] for action in actions if HEAD in action.get("commitInfo", {})):
                found = {step: each["version"] for step, each in json.loads(head).get("current", {}).items()}
                assert found == self.current, f"the head says {found} is current, the entries {self.current}"

    def shown_at(self, version: int) -> tuple[Mapping[TableDay, str], Mapping[str, int]]:
        """What readers see who pin that version of the log: the publication of each day, and the map of tables."""
        found = [each for each in self._shown if each[0] <= version]
        return found[-1][1:] if found else ({}, {})

    def shows(self, table: str, version: int) -> int:
        """The version of the log from which on readers see that one of a table; the next one, if there is none yet."""
        found = (at for at, _, shown in self._shown if shown.get(table, -1) >= version)
        return next(found, self.version + 1)

    def _entry(self, rows: list[dict[str, Any]]) -> None:
        event, publication = rows[0]["event"], rows[0]["publication"]
        if event == "prepared":
            self._prepared(publication)
            self._origins.prepared(publication, rows[0]["detail"])
        elif event == "aborting":
            assert publication in self.open - self._aborting, f"{publication} decided twice"
            self._aborting.add(publication)
        elif event == "closed":
            self._closed(publication, rows)
        elif event == "books":
            self._books(json.loads(rows[0]["detail"]))
        elif event == "pinned":
            self._pin(json.loads(rows[0]["detail"]))
            self._shown.append((self.version, dict(self.last), dict(self.map)))

    def _books(self, entries: list[dict[str, Any]]) -> None:
        for each in entries:
            tables = [each["table"]] if each["table"] else self._tables.keys() - set(each["takes_rows"])
            days = DayRange(parse_day(each["first"]), parse_day(each["last"]))
            keys = {TableDay(table, day) for table in tables for day in days}
            self.closed = self.closed | keys if each["word"] == "close" else self.closed - keys
            changing = {key for publication in self.open for key in self._changes(publication)} & keys
            assert each["word"] == "reopen" or not changing, f"{changing} was closed while it was changed"

    def _changes(self, publication: str) -> set[TableDay]:
        """Days of which it changes rows by more than appending."""
        wishes = self._wishes[publication]
        tables = {} if wishes.kind == "compact" else wishes.tables
        undone = self._wishes[wishes.undoes].tables if wishes.undoes else {}
        return {
            TableDay(table, day)
            for table, wish in tables.items()
            for day in wish.rows
            if "append" not in (wish.mode, undone[table].mode if table in undone else "")
        }

    def _prepared(self, publication: str) -> None:
        wishes = self._wishes[publication]
        changed = self._changes(publication) & self.closed
        assert not changed, f"{publication} was prepared over closed days: {changed}"
        assert publication not in self.outcomes, f"{publication} was prepared again"
        for other in self.open:
            locked = self._wishes[other].tables.keys() | self._wishes[other].switches.keys()
            shared = locked & (wishes.tables.keys() | wishes.inputs.keys() | wishes.switches.keys())
            assert not shared, f"{publication} was prepared past the lock of {other} on {shared}"
        for table, days in wishes.inputs.items():
            for day, read in days.items():
                now = self._pinned(table, day)
                gone = Counter(read) - now
                assert not wishes.exact or Counter(read) == now, f"{publication} was prepared on gained rows"
                assert not gone, f"{publication} was prepared though {gone} of {table} {day} were withdrawn"
        self.open.add(publication)

    def _pinned(self, table: str, day: date) -> Rows:
        return self._tables[table].at(self.map[table], day).rows if table in self.map else Counter()

    def _closed(self, publication: str, rows: list[dict[str, Any]]) -> None:
        outcome = rows[0]["outcome"]
        assert publication in self.open, f"{publication} was closed twice"
        assert (publication in self._aborting) == (outcome == "aborted"), f"{publication} closed against the decision"
        self.open.remove(publication)
        self.outcomes[publication] = outcome
        self.closed_at[publication] = self.version
        by_hand = any(row["event"] == "aborted by hand" for row in rows)
        self._check_map(publication, outcome, json.loads(rows[0]["detail"]), by_hand)
        if outcome == "done":
            self._switch(publication)
            self._replay(publication, [_table_day(row) for row in rows[1:]])
            self._check_days(publication, rows[1:])
            self._origins.closed(publication, [row for row in rows[1:] if row["event"] == "published"])
            self._told(publication, _versions(rows[1:]), self.map)
        self._check_pinned(publication)
        self._shown.append((self.version, dict(self.last), dict(self.map)))

    def _switch(self, publication: str) -> None:
        """A version becomes current with its days, in place of the one before; an undo takes it back."""
        wishes = self._wishes[publication]
        undone = self._switched.get(wishes.undoes, {})
        switches = {step: (version, former) for step, (former, version) in undone.items()} or dict(wishes.switches)
        self._switched[publication] = switches
        for step, (former, version) in switches.items():
            now = self.current.get(step, "")
            assert now == former, f"{publication} switches {step} from {former}: {now} is current"
            self.current[step] = version
        self.current = {step: version for step, version in self.current.items() if version}

    def _left(self, publication: str, outcome: str, by_hand: bool) -> set[str]:
        """Tables that an abort by hand could not put back: what it committed there is a foreign write from now on."""
        if outcome == "done" or not by_hand:
            return set()
        tables = [self._tables[table] for table in self._wishes[publication].tables]
        left = [each for each in tables if publication not in each.fenced and publication not in each.withdrawn]
        for table in left:
            if commit := table.commits.get(publication):
                self.left.setdefault(publication, set()).add(table.table)
                for day in commit.after:
                    table.touched.setdefault(day, []).append(commit.version)
        return {table.table for table in left}

    def _check_map(self, publication: str, outcome: str, found: dict[str, int], by_hand: bool) -> None:
        tables = set(self._wishes[publication].tables) - self._left(publication, outcome, by_hand)
        own = {table: self._own_commit(publication, table, outcome) for table in tables}
        if by_hand and outcome == "aborted":
            own = {table: at for table, at in own.items() if not self._stays(publication, table, at, found)}
        own = {table: self._or_newest(publication, table, version, found[table]) for table, version in own.items()}
        assert found == self.map | own, f"{publication}: the map says {found}, the tables {self.map | own}"
        self.map = found

    def _stays(self, publication: str, table: str, own: int, found: Mapping[str, int]) -> bool:
        """Whether readers stay where they were, at the same rows: who gives up could not put the table back.

        Another one could, who came to the same entry when that was put right.
        """
        judge, pinned = self._tables[table], self.map.get(table)
        if found.get(table) != pinned or pinned == own:
            return False
        shown = judge.days[pinned] if pinned is not None else {}
        days = [day for day in self._wishes[publication].tables[table].rows if not judge.touched_between(day, -1, own)]
        return all(shown.get(day, NOTHING).rows == judge.at(own, day).rows for day in days)

    def _own_commit(self, publication: str, table: str, outcome: str) -> int:
        judge = self._tables[table]
        if outcome == "done":
            assert publication not in judge.withdrawn, f"{publication} is done, and withdrawn in {table}"
            assert publication in judge.commits, f"{publication} is done, and {table} has no commit of it"
            return judge.commits[publication].version
        fence = judge.fenced.get(publication)
        assert fence is not None or publication in judge.withdrawn, f"{publication} is aborted, and stays in {table}"
        return judge.withdrawn[publication] if fence is None else fence

    def _or_newest(self, publication: str, table: str, own: int, found: int) -> int:
        """Of a commit that an engine has cleaned up, a newer version that has its days as it left them."""
        judge = self._tables[table]
        if found == own or judge.has_commit(own):
            return own
        commit = judge.commits.get(publication)
        days = commit.after if commit else self._wishes[publication].tables[table].rows
        other = [str(day) for day in days if judge.at(found, day).files != judge.at(own, day).files]
        assert found > own and not other, f"{publication}: the map says {table} {found}, where {other} differ"
        return found

    def _pin(self, found: dict[str, int]) -> None:
        """Readers are sent to newer versions, which must have just the files of those that they were pinned to."""
        assert found.keys() == self.map.keys(), f"pinned are {found}, the map was {self.map}"
        for table, version in found.items():
            judge = self._tables[table]
            assert version >= self.map[table] and judge.days[version] == judge.days[self.map[table]]
        self.map = found

    def _replay(self, publication: str, days: list[TableDay]) -> None:
        wishes = self._wishes[publication]
        self._before[publication] = {}
        for key in days:
            table, day = key
            commit = self._tables[table].commits[publication]
            was = self._model.get(key, Known(-1, Counter()))
            if self._tables[table].touched_between(day, was.version, commit.version):
                was = Known(commit.version, None)
            self._before[publication][key] = was
            self._model[key] = self._after(wishes, was, key, commit.version)
            self.last[key] = publication
            self._check_newer(publication, key)

    def _check_newer(self, publication: str, key: TableDay) -> None:
        """Who replaces a result has seen it, and so reads its inputs no older than it did."""
        now, before = self._wishes[publication].looked_at, self._made_of.get(key, {})
        older = [table for table, version in now.items() if version < before.get(table, version)]
        assert not older, f"{publication} replaces {key} by what was made of older {older} unseen"
        self._made_of[key] = now

    def _after(self, wishes: Wishes, was: Known, key: TableDay, version: int) -> Known:
        if wishes.undoes:
            return Known(version, self._before[wishes.undoes][key].rows)
        wish = wishes.tables[key[0]]
        if wishes.kind == "compact":
            return Known(version, was.rows)
        rows = Counter(wish.rows[key[1]])
        if wish.mode == "append":
            return Known(version, None if was.rows is None else was.rows + rows)
        return Known(version, rows)

    def _check_days(self, publication: str, rows: list[dict[str, Any]]) -> None:
        """What the log says a day holds is what the table has: files, row count and checksum."""
        for row in rows:
            table, day = key = _table_day(row)
            judge = self._tables[table]
            found = judge.at(judge.commits[publication].version, day)
            assert row["physical"] == fingerprints.physical(found.files), f"{publication} {day} files"
            if row["rows"] is None:
                known = self._model[key].rows
                assert not known, f"{publication}: the log does not know {table} {day}"
            else:
                truth = content(found.rows.elements())
                told = (row["rows"], row["checksum"])
                assert told == (truth.rows, truth.checksum), f"{publication}: the log is wrong about {table} {day}"

    def _check_pinned(self, publication: str) -> None:
        """Readers of the map see exactly the closed entries, in all tables, wherever no foreign writer came between."""
        for (table, day), known in self._model.items():
            judge, version = self._tables[table], self.map[table]
            assert not judge.missing_files(version), f"{table} {version}: files are missing"
            if known.rows is not None and not judge.touched_between(day, known.version, version):
                found = judge.at(version, day).rows
                assert found == known.rows, f"after {publication}, {table} {day}: model {known.rows}, pinned {found}"

    def check_states(self, states: Mapping[TableDay, Any]) -> None:
        """The day states that the log gives out: last publication, and a foreign day is distinguished from ours."""
        for key, known in self._model.items():
            judge, state = self._tables[key[0]], states[key]
            assert state.publication == self.last[key], f"{key} is of {self.last[key]}, not of {state.publication}"
            pinned = judge.at(self.map[key[0]], key[1])
            foreign = state.logical_at(fingerprints.physical(pinned.files)).startswith("foreign")
            changed = judge.days[known.version].get(key[1], NOTHING).files != pinned.files
            assert foreign or not changed, f"{key} was changed by others, and the log calls it ours"


def _versions(rows: Iterable[Mapping[str, Any]]) -> dict[TableDay, str | None]:
    """The version of the logic of each day that is published; None for one that is published no more."""
    days = [row for row in rows if row["event"] == "published"]
    return {_table_day(row): None if row["rows"] is None else row["code_version"] for row in days}


def _table_day(row: Mapping[str, Any]) -> TableDay:
    return TableDay(row["table"], parse_day(row["day"]))
