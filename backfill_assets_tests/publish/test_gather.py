"""Gathering a stream's entries: no row is lost, what the head names stays, and folding leaves them alone."""

from __future__ import annotations

from datetime import timedelta

import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish import fold as log_fold
from backfill_assets.publish.files import ENTRIES, LOG_TABLE
from backfill_assets.publish.fold import fold, gather, gatherable, is_gathered
from backfill_assets.state.history import history
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets.upkeep.maintenance_plan import Chore
from backfill_assets.upkeep.reclaim import reclaim
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake, pinned_by

pytestmark = pytest.mark.protocol


@pytest.fixture(autouse=True)
def few_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_fold, "GATHER_FROM", (8, 3))
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 4)


def _stream(lake: Lake, count: int, first: int = 0) -> None:
    publisher, made = lake.publisher(), Provenance(launched_by="stream raw")
    for number in range(first, first + count):
        rows = {"raw": {D1: [f"r{number}"]}}
        request = lake.request(f"s{number:03d}", rows, pinned_by(publisher, rows), kind="append")
        publisher.publish(request.model_copy(update={"provenance": made}))
        lake.clock += timedelta(seconds=10)


def _answers(lake: Lake) -> list[object]:
    log = lake.publisher().log
    return [
        log_rows(log),
        log.head().state,
        log.day_states(log.head()),
        log.find_prepared("s001"),
        log.outcome(log.head(), "s001"),
        history(lake.storage, "raw"),
    ]


def test_gathering_moves_rows_and_loses_none(lake: Lake) -> None:
    """Every question has the same answer; what the head names, and what others published, keeps a file of its own."""
    lake.publish("p1", {"t": {D2: ["x"]}})
    _stream(lake, 5)
    log = lake.publisher().log
    before, named, others = _answers(lake), {*log.head().state.since}, set(log.files().holding("table", ["t"]).paths)
    assert gather(log) == 0, "five batches have ten entries, of which the head names five"
    _stream(lake, 4, first=5)
    before, named = _answers(lake), {*log.head().state.since}
    assert gather(log) == 9
    assert _answers(lake) == before
    assert named | others <= set(log.files().paths)
    assert sum(map(is_gathered, log.files().paths)) == 1
    _stream(lake, 1, first=9)
    roll_back(lake.publisher(), "s009", id="undo", steps=())
    assert lake.rows("raw")[D1] == sorted(f"r{number}" for number in range(9))


def test_gathered_files_are_gathered_once_more_and_then_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A question looks at a few files, and no month of a stream is written again as a whole."""
    monkeypatch.setattr(log_fold, "GATHER_FROM", (4, 3))
    log = lake.publisher().log
    for number in range(0, 24, 3):
        _stream(lake, 3, first=number)
        gather(log)
    rows = log_rows(log)
    gathered = [path for path in log.files().paths if is_gathered(path)]
    assert len(gathered) <= 5 and any("/stream-2-" in path for path in gathered)
    lake.clock += timedelta(days=21)
    lake.publish("today", {"t": {D3: ["new"]}})
    fold(log, lake.clock)
    assert set(gathered) <= set(log.files().paths)
    assert [row for row in log_rows(log) if row["publication"] != "today"] == rows
    lake.clock += timedelta(days=3)
    reclaim(lake.publisher(), LOG_TABLE)
    assert log.find_prepared("s001") is not None
    assert [row for row in log_rows(log) if str(row["publication"]).startswith("s")] == rows


def test_maintenance_plans_and_gathers_what_a_stream_has_left(lake: Lake) -> None:
    """Its process has ended before it gathered: the plan names the files, and how many bytes they are."""
    _stream(lake, 9)
    tended = Maintenance(lake.publisher(), ["raw"], timeline_days=14, clock_checked=True)
    (task,) = (each for each in tended.plan() if each.chore is Chore.GATHER)
    sizes = dict(lake.publisher().log.files().sizes)
    assert task.files == len(task.items) == 9 and task.bytes == sum(sizes[path] for path in task.items)
    assert tended.carry_out([task], print)[0].outcome == "9 files gathered"
    assert not gatherable(lake.publisher().log)


def test_gathering_that_loses_the_race_leaves_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publication came between: the log is as it was, and a later batch gathers it."""
    _stream(lake, 9)
    log = lake.publisher().log
    really, head = log.head, log.head()
    lake.publish("between", {"t": {D2: ["x"]}})
    monkeypatch.setattr(log, "head", lambda: head)
    assert gather(log) == 0
    monkeypatch.setattr(log, "head", really)
    assert {file.path for file in lake.storage.files(ENTRIES)} == set(log.files().paths)
    assert gather(log) > 0
