"""What the judges of the simulator say of a storm: by the commits that were kept, and by what all processes have noted.

Each table and the log step by step, every read by the versions that it names, every answer by the log; then the
history, whose intervals are moments of one clock, by libraries of others. Of a call that was never answered, the log
says what became of it, and its end is when that had been seen there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import cached_property
from pathlib import Path

from backfill_assets.days import TableDay, parse_day
from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish.files import LOG_TABLE
from backfill_assets_tests.simulator import chain
from backfill_assets_tests.simulator.history import History, Key, Operation
from backfill_assets_tests.simulator.judges import Verdict, judged
from backfill_assets_tests.simulator.judges.log import LogJudge
from backfill_assets_tests.simulator.judges.reports import ReportJudge
from backfill_assets_tests.simulator.judges.sources import judge_positions
from backfill_assets_tests.simulator.judges.tables import TableJudge
from backfill_assets_tests.simulator.model import Wishes
from backfill_assets_tests.simulator.on_disk import OnDisk
from backfill_assets_tests.simulator.told import decided_on, with_replaced
from backfill_assets_tests.simulator.world import CHAIN, DAYS_OF, RAW, TABLES
from backfill_assets_tests.storm.archive import seen_in
from backfill_assets_tests.storm.leases import wrong_leases
from backfill_assets_tests.storm.names import wrong_names
from backfill_assets_tests.storm.notes import WISHES, LifeTold, Line, rows_of_json, told_in

_MOST = 12


@dataclass
class Judgement:
    """Of the ``lives`` whose notes are in a folder, on a lakehouse whose commits are in another."""

    lives: Sequence[LifeTold]
    kept: Path
    wrong: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        held = OnDisk(self.kept)
        self.wishes: dict[str, Wishes] = {}
        self.requests: dict[str, Publication] = {}
        for line in (line for life in self.lives for line in life.of("wishes")):
            self.wishes[line["id"]] = WISHES.validate_python(line["wishes"])
        for line in (line for life in self.lives for what in ("wishes", "completed") for line in life.of(what)):
            if line["request"]:
                self.requests[line["id"]] = Publication.model_validate(line["request"])
        self.tables = {table: TableJudge(held, table, self.wishes) for table in (*TABLES, *CHAIN)}
        self.reports = ReportJudge(self.tables, chain.CHAIN)
        self.log = LogJudge(held, self.wishes, self.tables, self.reports.closed)
        self.seen = seen_in(self.kept)

    def judge(self, seconds: float) -> tuple[Verdict, ...]:
        """Porcupine gives up on a table after ``seconds``; where a table is wrong by itself, nothing else is judged."""
        for life in self.lives:
            self.wrong += [f"{life.id} failed: {line['why']}" for line in life.of("failed")]
        for table in self.tables.values():
            self._said(lambda each=table: self._follow(each))  # type: ignore[misc]
        if self.wrong:
            return ()
        self._said(self._follow_the_log)
        if self.wrong:
            return ()
        self.wrong += [*self._wrong_answers(), *wrong_names(self.lives), *wrong_leases(self.lives)]
        self._said(lambda: self.reports.all_from_raw(self.log.map))
        return judged(self.history, seconds=seconds)

    def _said(self, judge: Callable[[], object]) -> None:
        """A judge of steps stops at the first thing that is wrong."""
        try:
            judge()
        except (AssertionError, LookupError, FileNotFoundError) as error:
            self.wrong.append(f"{type(error).__name__}: {str(error)[:1500]}")

    @staticmethod
    def _follow(table: TableJudge) -> None:
        while table.follow_one():
            if table.table in RAW:
                judge_positions(table)

    def _follow_the_log(self) -> None:
        self.log.follow()
        assert self.log.version == len(self.seen[LOG_TABLE]) - 1, "the log ends before its end"
        assert not self.log.open, f"{self.log.open} are left open"

    # ------------------------------------------------------------------ answers

    def _wrong_answers(self) -> Iterator[str]:
        """Done is done for good, refused had no effect, and what was announced is what happened."""
        for life in self.lives:
            yield from _few(self._wrong_outcomes(life))
        heard = {line["key"] for life in self.lives for line in life.of("heard")}
        noticed = {id for id, request in self.requests.items() if request.notice is not None}
        done = {id for id in noticed if self.log.outcomes.get(id) == "done"}
        if heard - done:
            yield f"{sorted(heard - done)[:3]} was announced, and is not done"
        if done - heard:
            yield f"notices of {sorted(done - heard)[:3]} are lost"

    def _wrong_outcomes(self, life: LifeTold) -> Iterator[str]:
        answered = [(each.publication, each.outcome) for each in self._told[life.id] if each.end is not None]
        again = [(line["id"], line["outcome"]) for line in life.of("again")]
        for id, outcome in (*answered, *again):
            is_done = self.log.outcomes.get(id or "") == "done"
            if id is not None and outcome == "ok" and not is_done:
                yield f"{id} was acknowledged, and is not done"
            elif id is not None and outcome == "refused" and is_done:
                yield f"{id} was refused, and is done"

    # ------------------------------------------------------------------ the history

    @cached_property
    def history(self) -> History:
        """What was asked and answered, with what the log says of what was not."""
        told = [self._resolved(each) for life in self.lives for each in self._told[life.id]]
        return History(tuple(sorted((each for each in told if each is not None), key=self._place)))

    @cached_property
    def _told(self) -> Mapping[str, Sequence[Operation]]:
        return {life.id: list(self._operations(life)) for life in self.lives}

    def _place(self, told: Operation) -> int:
        """What was written past the log comes first, in the order of its commits."""
        names = [] if told.kind == "read" or told.publication else [*told.writes.values()]
        return self._order.get(names[0], 0) if names else len(self._order)

    @cached_property
    def _order(self) -> Mapping[str, int]:
        return {name: number for number, (_, name) in enumerate(self._commits_past_the_log)}

    def _operations(self, life: LifeTold) -> Iterator[Operation]:
        """As the life knows of them itself."""
        asked: Operation | None = None
        for line in life.lines:
            if line["what"] == "asks":
                if asked is not None:
                    yield asked
                asked = self._asked(life, line)
            elif asked is not None and line["what"] in ("pins", "sees"):
                asked = replace(asked, reads={**asked.reads, **self._read(life, line)})
            elif asked is not None and line["what"] == "told":
                end = None if line["outcome"] == "unknown" else line["at"]
                yield replace(asked, end=end, outcome=line["outcome"], position=line.get("position"))
                asked = None
        if asked is not None:
            yield asked

    def _asked(self, life: LifeTold, line: Line) -> Operation:
        publication = line["publication"]
        request = self.requests.get(publication)
        return Operation(
            life.id,
            line["kind"],
            line["at"],
            None,
            "unknown",
            writes={(table, day): value for table, day, value in line["writes"]},
            reads=decided_on(self.tables, request) if request else {},
            publication=publication,
            pinned=line["pinned"],
        )

    def _read(self, life: LifeTold, line: Line) -> dict[Key, str | None]:
        """The values of the days that were read; what is not as the model has it is said."""
        if line["what"] == "sees":
            self._said(lambda: self._check_rows(life, line))
            return dict(self._values(line["table"], line["version"]))
        self._said(lambda: self._check_pin(life, line))
        versions = line["versions"]
        return {key: value for table in self.tables for key, value in self._values(table, versions.get(table))}

    def _check_rows(self, life: LifeTold, line: Line) -> None:
        table, version = line["table"], line["version"]
        images = self.tables[table].days[version] if version is not None else {}
        wanted = {day: image.rows for day, image in images.items() if image.rows}
        found = rows_of_json(line["rows"])
        assert found == wanted, f"torn read: {life.id}: {table} {version} reads {_apart(found, wanted)}"

    def _check_pin(self, life: LifeTold, line: Line) -> None:
        shown, pinned = self.log.shown_at(line["position"])
        values = {TableDay(table, parse_day(day)): value for table, day, value in line["values"]}
        at = f"at {line['position']} of the log"
        assert line["versions"] == dict(pinned), f"{life.id} pins {line['versions']}, {at} it is {pinned}"
        assert values == dict(shown), f"{life.id} sees {values} {at}, shown is {shown}"

    def _values(self, table: str, version: int | None) -> Iterator[tuple[Key, str | None]]:
        for day in DAYS_OF[table]:
            yield (table, str(day)), None if version is None else self.tables[table].at(version, day).value

    def _resolved(self, told: Operation) -> Operation | None:
        if told.kind == "read":
            return told
        if told.publication is None:
            return self._past_the_log(told)
        found, closed = with_replaced(told, self.tables), self.log.closed_at.get(told.publication)
        if told.end is not None:
            return replace(found, position=closed if told.outcome == "ok" else None)
        if closed is None:
            return replace(found, outcome="refused")
        is_done = self.log.outcomes[told.publication] == "done"
        end = max(self.seen[LOG_TABLE][closed], told.begin)
        return replace(found, outcome="ok" if is_done else "refused", end=end, position=closed if is_done else None)

    def _past_the_log(self, told: Operation) -> Operation | None:
        """What it changed is in its commits; one that changed nothing made none."""
        ((table, _), name) = next(iter(told.writes.items()))
        versions = self._commits_past_the_log.get((table, name), [])
        if not versions:
            if told.outcome == "ok" and not told.process.startswith("platform"):
                self.wrong.append(f"{name} was acknowledged, and is not in {table}")
            return None
        writes: dict[Key, str] = {}
        replaced: dict[Key, str | None] = {}
        for version in versions:
            days = self.tables[table].days
            before, after = days[version - 1] if version else {}, days[version]
            for day in after.keys() | before.keys():
                was, now = before.get(day), after.get(day)
                if now is not None and now != was:
                    writes[table, str(day)] = name
                    replaced[table, str(day)] = was.value if was else None
        seen = max(self.seen[table][versions[-1]], told.begin)
        position = self.log.shows(table, versions[-1])
        return replace(told, outcome="ok", end=told.end or seen, writes=writes, replaced=replaced, position=position)

    @cached_property
    def _commits_past_the_log(self) -> Mapping[tuple[str, str], list[int]]:
        found: dict[tuple[str, str], list[int]] = {}
        for name, table in self.tables.items():
            for version, foreign in table.foreign.items():
                found.setdefault((name, foreign), []).append(version)
        return found


def judge_folder(notes: Path, kept: Path, *, seconds: float = 60.0) -> tuple[Judgement, tuple[Verdict, ...]]:
    """Of a storm whose notes and commits were kept."""
    judgement = Judgement(told_in(notes), kept)
    return judgement, judgement.judge(seconds)


def _few(said: Iterator[str]) -> list[str]:
    found = list(said)
    return found[:_MOST]


def _apart(found: Mapping[date, Counter[str]], wanted: Mapping[date, Counter[str]]) -> str:
    days = [day for day in {*found, *wanted} if found.get(day) != wanted.get(day)]
    return "; ".join(f"{day} {dict(found.get(day, {}))}, committed was {dict(wanted.get(day, {}))}" for day in days[:2])
