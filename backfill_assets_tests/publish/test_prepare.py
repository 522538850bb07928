"""PREPARE beside other publishers: a lost round repeats the append and nothing else, and everyone gets a turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import ClassVar

import pytest

from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.records import Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.head import TURN
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.timeout(60)


@dataclass(frozen=True)
class AskingStorage(Storage):
    """Counts the files whose existence was asked for."""

    asked: ClassVar[Counter[str]] = Counter()

    def missing(self, paths: Iterable[str]) -> list[str]:
        listed = list(paths)
        self.asked.update(listed)
        return super().missing(listed)


@dataclass(frozen=True)
class InterruptedStorage(Storage):
    """Something happens right after it was asked for files of a timeline."""

    then: ClassVar[list[Callable[[], None]]] = []

    def missing(self, paths: Iterable[str]) -> list[str]:
        listed = list(paths)
        found = super().missing(listed)
        if any("/_timelines/" in path for path in listed) and self.then:
            self.then.pop()()
        return found


class Beside:
    """Publishes to another table in the moment in which a round of PREPARE has read the log, or the tables."""

    def __init__(self, lake: Lake, rounds: int, table: str = "other", at: CrashPoint = CrashPoint.LOG_READ) -> None:
        self.lake, self.left, self.table, self.at = lake, rounds, table, at
        self.reads = 0

    def __call__(self, step: CrashPoint, about: str) -> None:
        if step == self.at and about == "large":
            self.reads += 1
            if self.left:
                self.left -= 1
                self.lake.publish(f"small{self.left}", {self.table: {D3: [str(self.left)]}})


def test_a_lost_round_asks_for_no_file_again(lake: Lake) -> None:
    """A large cut-over would need seconds for it, and lose the next round to the same small publisher."""
    beside = Beside(lake, 4)
    publisher = Publisher(AskingStorage(str(lake.root)), reached=beside)
    request = lake.request("large", {"t": {D1: ["a"], D2: ["b"]}})
    AskingStorage.asked.clear()
    assert isinstance(publisher.publish(request), Published)
    staged = [f"t/{add.path}" for day in request.tables[0].days for add in day.adds]
    assert [AskingStorage.asked[path] for path in staged] == [1, 1]
    assert beside.reads >= 5


def test_a_round_lost_to_the_same_table_is_checked_again(lake: Lake) -> None:
    """What the new entry touched is looked at: the day was published in between."""
    beside = Beside(lake, 1, "t", CrashPoint.TABLES_READ)
    request = lake.request("large", {"t": {D1: ["a"], D3: ["b"]}})
    moved = lake.publisher(beside).publish(request)
    assert isinstance(moved, Conflict) and moved.days == {"t": frozenset({D3})}


def test_a_file_reclaimed_between_two_rounds_is_missed(lake: Lake) -> None:
    """An intent that was opened and carried out in between leaves no open intent behind."""
    lake.publish("p0", {"t": {D2: ["x"]}})
    request = lake.request("large", {"t": {D1: ["a"]}})
    file = lake.root / "t" / request.tables[0].days[0].adds[0].path

    def reclaimed() -> None:
        lake.clock += timedelta(days=lake.retention_days + 1)
        path = str(file.relative_to(lake.root))
        log = f"{path.partition('/day=')[0]}/_delta_log/{0:020d}.json"
        assert reclaim(lake.publisher(), "t", clock_checked=True) == [log, path], "the whole timeline"

    InterruptedStorage.then.append(reclaimed)
    publisher = Publisher(InterruptedStorage(str(lake.root)))
    assert isinstance(publisher.publish(request), Conflict) and not file.exists()
    assert "large" not in lake.head.outcomes


def ask(lake: Lake, name: str) -> None:
    log = lake.publisher().log
    head = log.head()
    state = head.state.asking(name, lake.clock)
    assert log.append(head, [{"event": "waiting", "publication": name}], lambda file: state)


def test_who_lost_several_rounds_asks_for_a_turn_and_others_let_it_pass(lake: Lake) -> None:
    """It is on the log, so it costs no request; and it is gone with the entry that it was for."""
    large = lake.request("large", {"t": {D1: ["a"]}})
    assert isinstance(lake.publisher(Beside(lake, 5)).publish(large), Published)
    assert "waiting" in [row["event"] for row in log_rows(lake.publisher().log)]
    assert lake.head.turns == {}
    ask(lake, "another")
    ask(lake, "a third")
    lake.time.slept.clear()
    another = Publication(id="another", kind="replace", tables=())
    assert lake.publisher().prepare(another) == another
    assert lake.time.slept == [], "the oldest of those who ask goes first, or two large ones would let each other pass"
    small = lake.request("small", {"other": {D1: ["b"]}})
    assert lake.publisher().prepare(small) == small
    assert sum(lake.time.slept) == pytest.approx(TURN.total_seconds(), abs=0.2)


def test_nothing_waits_longer_than_one_turn_for_the_dead(lake: Lake) -> None:
    """However many asked before they died, and with any clocks."""
    for number in range(3):
        ask(lake, f"dead{number}")
    lake.clock -= timedelta(hours=1)
    ask(lake, "dead with another clock")
    small = lake.request("small", {"other": {D1: ["b"]}})
    standing = lake.clock
    lake.time.at_sleep = lambda: setattr(lake.time, "moment", standing)
    assert lake.publisher().prepare(small) == small
    assert sum(lake.time.slept) <= TURN.total_seconds() + 0.2


@pytest.mark.protocol
def test_a_torn_publication_is_refused_before_it_is_on_the_log(tmp_path: Path) -> None:
    """Bronze of other rows than raw holds: nothing is prepared, and nothing is left to recover."""
    small = SmallLakehouse(tmp_path)
    small.publish("raw", {"raw_sales": {D1: [1]}})
    other = fingerprints.inputs({"raw_sales": {D1: fingerprints.logical(1, 2)}})
    request = small.request("bronze", {"bronze_sales": {D1: [2]}, "quarantine_sales": {D1: []}}, inputs={D1: other})
    before = small.publisher.log.head().version
    for ask in (small.publisher.foresee, small.publisher.publish):
        with pytest.raises(PublicationRefused, match=f"bronze is refused: bronze_sales {D1} was made of other content"):
            ask(request)
    assert small.publisher.log.head().version == before
    assert small.publisher.recover() == {}
