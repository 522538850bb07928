"""Small files of raw are put together beside batches that have not followed: those stay new."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from backfill_assets import clock
from backfill_assets.days import TableDay
from backfill_assets.examples.catalog import CATALOG
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.records import InputRead
from backfill_assets.publish import small_files
from backfill_assets.rebuild import decide
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream import facts
from backfill_assets.stream.facts import Facts
from backfill_assets.stream.follower import Follower
from backfill_assets_tests.played_lake import lake_of
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.protocol
RAW, DAY, FEW = "raw_sales", date(2026, 3, 2), 4
TOLD: Any = SimpleNamespace()


class Streamed:
    """Batches of one row each; the facts of the first ``FEW`` are built."""

    def __init__(self, small: SmallLakehouse) -> None:
        self.small = small
        for number in range(FEW):
            self.append(number)
        self.follower = Follower(lake_of(small), CATALOG.step(RAW), RunInfo(""), print, print)
        self.facts = Facts(self.follower, TOLD, raw_turn=threading.Lock())
        self.built = self.read()
        self.follower.read = self.built

    def append(self, number: int) -> frozenset[str]:
        """The files that it adds."""
        before = self.files() if number else frozenset()
        self.small.publish(f"batch-{number}", {RAW: {DAY: [number]}}, mode="append")
        return self.files() - before

    def read(self) -> InputRead:
        return self.small.publisher.pin({}, {RAW: [DAY]}).inputs[RAW]

    def files(self) -> frozenset[str]:
        main = MainTable.open(self.small.storage, RAW)
        assert main is not None
        return frozenset(file.path for file in main.state().of_days([DAY])[DAY])

    def put_together(self) -> None:
        self.facts._compact_followed(RAW, {DAY})

    def new(self) -> frozenset[str] | None:
        """What of raw is new to the facts, by what the stream remembers."""
        earlier = self.follower.memory.of(TableDay(RAW, DAY))
        return decide.gained_files(self.built.days[DAY].__eq__, earlier, self.files())


@pytest.fixture
def streamed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Streamed]:
    monkeypatch.setattr(small_files, "FULL", FEW)
    small = SmallLakehouse(tmp_path / "lakehouse")
    with clock.use(small.time):
        yield Streamed(small)


def test_rows_that_come_while_files_are_put_together_stay_new(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Were they in the file of those that have followed, their day would be built whole.

    What another one takes back meanwhile is not taken for put together: facts have it, so their day is built whole.
    """
    later, read = streamed.append(FEW), facts._paths
    files = list[int]()

    @contextmanager
    def turn() -> Iterator[None]:
        files.append(len(streamed.files()))
        yield
        files.append(len(streamed.files()))

    with monkeypatch.context() as patch:
        patch.setattr(streamed.facts, "raw_turn", turn())
        streamed.put_together()
    assert files == [FEW + 1, 2], "they are put together in raw's turn"
    assert len(streamed.files()) == 2 and later < streamed.files()
    assert streamed.new() == later

    def with_one_more(follower: Follower, table: str, version: int, days: Iterable[date]) -> dict[date, frozenset[str]]:
        """As the facts had it; not as raw is before the compaction, which is the same version here."""
        found, looks[0] = read(follower, table, version, days), looks[0] + 1
        return {day: files | {"taken back"} for day, files in found.items()} if looks[0] == 1 else found

    for number in range(FEW):
        streamed.append(FEW + 1 + number)
    streamed.follower.read = streamed.built = streamed.read()
    looks = [0]
    monkeypatch.setattr(facts, "_paths", with_one_more)
    streamed.put_together()
    assert len(streamed.files()) == 2 and streamed.new() is None
