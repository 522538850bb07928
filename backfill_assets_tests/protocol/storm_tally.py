"""The tally of a storm: what each process has tried and was answered, in plain files, and what must be there by it.

Nothing of the code under test is used here. A line is written before each deed and after it; a process that was killed
in between has tried it, and the publication log alone says what became of it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

V = TypeVar("V")
FOREIGN = "foreign"
OVER = "over"
"""A file among the tallies: a storm that has seen enough ends before its time."""
Line = Mapping[str, Any]


def by_text(days: Mapping[date, V]) -> dict[str, V]:
    """Days as a tally writes them."""
    return {str(day): value for day, value in days.items()}


@dataclass(frozen=True)
class Tally:
    """One process's file. Lines reach the kernel one by one: kill -9 takes none of them back."""

    file: Path

    def write(self, what: str, **told: object) -> None:
        with self.file.open("a") as out:
            out.write(json.dumps({"what": what, **told}) + "\n")


@dataclass
class Told:
    """All tallies of a storm together."""

    lines: list[Line]

    @classmethod
    def read(cls, folder: Path) -> Told:
        return cls(
            [json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
        )

    def of(self, what: str) -> Iterator[Line]:
        return (line for line in self.lines if line["what"] == what)

    def count(self) -> Counter[tuple[str, str]]:
        """How often each role wrote what."""
        return Counter((line["role"], line["what"]) for line in self.lines)

    def sum(self, of_what: str) -> int:
        """The files that upkeep told of, of all its processes."""
        return sum(line.get(of_what, 0) for line in self.of("maintained"))


@dataclass(frozen=True)
class Found:
    """What is there after the storm, by the code under test: the log's entries in order, and every table's rows."""

    entries: tuple[tuple[str, str], ...]
    """Publication and outcome of each closed entry."""
    rows: Mapping[str, Mapping[str, Counter[str]]]
    positions: Mapping[str, int]
    open: tuple[str, ...] = ()
    switches: Mapping[str, str] = field(default_factory=dict)
    """The version that is current, by step."""
    timelines: tuple[tuple[str, str], ...] = ()
    """Ids and names of those that are kept."""


@dataclass
class Judge:
    """Compares ``found`` with ``told``. ``wrong`` has a sentence for each broken promise."""

    told: Told
    found: Found
    pair: tuple[str, str]
    raw: str
    wrong: list[str] = field(default_factory=list)

    def judge(self) -> list[str]:
        outcomes = dict(self.found.entries)
        self._expect(not self.found.open, f"entries are open after recovery: {self.found.open}")
        for line in self.told.of("done"):
            self._expect(
                outcomes.get(line["id"]) == "done", f"{line['id']} was acknowledged, and the log does not say so"
            )
        for line in self.told.of("refused"):
            self._expect(outcomes.get(line.get("id", "")) != "done", f"{line.get('id')} was refused, and is done")
        for line in self.told.of("torn"):
            self.wrong.append(f"a pinned read was torn: {line['why']}")
        for line in self.told.of("failed"):
            self.wrong.append(f"{line['role']} failed: {line['why']}")
        self._judge_replaced(self._states())
        self._judge_appended()
        self._judge_foreign()
        self._judge_switches()
        self._judge_names()
        return self.wrong

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    def _states(self) -> dict[tuple[str, str], str]:
        """The publication that each replaced day is of, by the done entries in the order of the log.

        On the way: a process that replaced a day has seen the entry before it. A compaction is not noted by its days.
        """
        tried = {line["id"]: line for line in self.told.of("tried")}
        state: dict[tuple[str, str], str] = {}
        before: dict[str, dict[tuple[str, str], str]] = {}
        newest: dict[tuple[str, str], str] = {}
        for id, outcome in self.found.entries:
            wish = tried.get(id)
            if outcome != "done" or wish is None:
                continue
            if undone := wish.get("undoes"):
                then = before.get(undone, {})
                before[id] = {key: state.get(key, "") for key in then}
                state.update(then)
                newest.update(dict.fromkeys(then, id))
            elif rows := wish.get("rows"):
                keys = [(table, day) for table, days in rows.items() for day in days]
                before[id] = {key: state.get(key, "") for key in keys}
                self._judge_seen(wish, newest)
                state.update(dict.fromkeys(keys, id))
                newest.update(dict.fromkeys(keys, id))
        return state

    def _judge_seen(self, wish: Line, newest: Mapping[tuple[str, str], str]) -> None:
        for table, days in wish.get("saw", {}).items():
            for day, saw in days.items():
                known = saw.startswith("compact-") or saw == newest.get((table, day), "")
                self._expect(known, f"{wish['id']} replaced {newest.get((table, day))} on {table} {day} and saw {saw}")

    def _judge_replaced(self, states: Mapping[tuple[str, str], str]) -> None:
        rows = {line["id"]: line["rows"] for line in self.told.of("tried") if line.get("rows")}
        for table in {table for table, _ in states}:
            for day, names in self.found.rows.get(table, {}).items():
                own = Counter({name: n for name, n in names.items() if not name.startswith(FOREIGN)})
                id = states.get((table, day), "")
                wanted = Counter(rows[id][table][day]) if id else Counter[str]()
                self._expect(own == wanted, f"{table} {day}: {_few(own - wanted)} too much, {_few(wanted - own)} lost")
        left, right = (self.found.rows.get(table, {}) for table in self.pair)
        self._expect(left == right, f"{self.pair[0]} and {self.pair[1]} are not of the same publications")

    def _judge_appended(self) -> None:
        """Every offset below the position once, nothing beyond it, and no acknowledged one lost."""
        there = Counter(name for day in self.found.rows.get(self.raw, {}).values() for name in day.elements())
        wanted = Counter(f"{source}:{n}" for source, position in self.found.positions.items() for n in range(position))
        self._expect(there == wanted, f"{self.raw}: {_few(there - wanted)} too much, {_few(wanted - there)} lost")
        for line in self.told.of("done"):
            if "source" in line:
                reached = self.found.positions.get(line["source"], 0)
                self._expect(reached >= line["to"], f"{line['source']} is at {reached}, {line['to']} was acknowledged")

    def _judge_switches(self) -> None:
        """The versions are those of the newest publication that brought some; an undo brings those of before."""
        tried = {line["id"]: line for line in self.told.of("tried")}
        current: dict[str, str] = {}
        before: dict[str, dict[str, str]] = {}
        for id, outcome in self.found.entries:
            wish = tried.get(id)
            if outcome != "done" or wish is None:
                continue
            brought = before.get(wish["undoes"], {}) if wish.get("undoes") else wish.get("switches", {})
            before[id] = {step: current.get(step, "") for step in brought}
            current.update(brought)
        wanted = {step: version for step, version in current.items() if version}
        found = {step: version for step, version in self.found.switches.items() if version}
        self._expect(found == wanted, f"{found} are current, and {wanted} were made so")

    def _judge_names(self) -> None:
        """No name had two timelines at once, and what was acknowledged is so."""
        names = Counter(name for _, name in self.found.timelines)
        self._expect(not names or max(names.values()) == 1, f"timelines share a name: {self.found.timelines}")
        kept: dict[str, set[str]] = {}
        for id, name in self.found.timelines:
            kept.setdefault(id, set()).add(name)  # Two, if who renamed it was killed between them.
        tried, done = list(self.told.of("naming")), list(self.told.of("named"))
        for id in {line["id"] for line in done}:
            last = max((line for line in done if line["id"] == id), key=lambda line: float(line["at"]))
            begun = _begun(last, tried)
            later = [line["name"] for line in tried if line["id"] == id and line["at"] >= last["at"]]
            beside = [line["name"] for line in done if line["id"] == id and line["at"] >= begun]
            under_way = [line["name"] for line in tried if line["id"] == id and not _is_answered(line, done)]
            known = {*later, *beside, *under_way}
            names_now = kept.get(id, {""})
            self._expect(bool(names_now & known), f"timeline {id} is {sorted(names_now)}, and was called {known}")
        for first, second in _holders(tried, done):
            self.wrong.append(f"{second} got the name of {first}, which had it")

    def _judge_foreign(self) -> None:
        """Rows that a foreign writer added where no publication replaces them: once each."""
        tried = {name for line in self.told.of("foreign tried") for name in line["names"]}
        done = {name for line in self.told.of("foreign done") for name in line["names"]}
        for table, days in self.found.rows.items():
            for day, names in days.items():
                there = Counter({name: n for name, n in names.items() if name.startswith(FOREIGN)})
                twice = [name for name, n in there.items() if n > 1]
                self._expect(not twice, f"{table} {day}: foreign rows are there twice: {_few(twice)}")
                self._expect(there.keys() <= tried, f"{table} {day}: rows that were never written")
        kept = {name for days in self.found.rows.values() for names in days.values() for name in names}
        lost = {name for name in done if name.startswith(f"{FOREIGN}-kept")} - kept
        self._expect(not lost, f"foreign rows are lost: {_few(sorted(lost))}")


def _begun(line: Line, tried: Iterable[Line]) -> float:
    """When what ``line`` says is done was begun: it came about at any time since, however late it was noted."""
    same = (each for each in tried if (each["id"], each["name"]) == (line["id"], line["name"]))
    return float(max(each["at"] for each in same if each["at"] <= line["at"]))


def _is_answered(tried: Line, done: Iterable[Line]) -> bool:
    return any(
        (line["id"], line["name"]) == (tried["id"], tried["name"]) and line["at"] >= tried["at"] for line in done
    )


def _holders(tried: Sequence[Line], done: Sequence[Line]) -> Iterator[tuple[str, str]]:
    """Timelines that got a name, each with one that had it before and that nothing had tried to take it from."""
    for first, second in product(done, done):
        if first["id"] == second["id"] or first["name"] != second["name"] or not first["name"]:
            continue
        began, held = _begun(second, tried), _begun(first, tried)
        answered = {(line["id"], line["name"]) for line in done if line["at"] < held}
        leaves = (
            line["at"]
            for line in tried
            if (line["id"] == first["id"] and line["name"] != first["name"])
            and (line["at"] >= held or (line["id"], line["name"]) not in answered)
        )
        left = min(leaves, default=float("inf"))
        if first["at"] < began and second["at"] < left:
            yield first["id"], second["id"]


def _few(names: Iterable[str]) -> str:
    listed = list(names)
    return f"{len(listed)} ({', '.join(listed[:3])})" if listed else "nothing"
