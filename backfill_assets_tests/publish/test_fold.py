"""Folding the log: nothing is lost by it, nothing under way is touched, and every question stays flat."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from backfill_assets import clock
from backfill_assets.campaign.rollback import roll_back
from backfill_assets.lakehouse.records import Provenance
from backfill_assets.publish import fold as log_fold
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.files import ENTRIES
from backfill_assets.publish.fold import COMMITS_KEPT, SETTLED, fold, foldable, left_behind, trim
from backfill_assets.publish.log import LOG_TABLE
from backfill_assets.state.history import history
from backfill_assets.state.rolled_back import rollbacks
from backfill_assets.upkeep.reclaim import finish_reclaiming, reclaim
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake, dying_at
from benchmarks.three_years import Opened, Years, questions

pytestmark = pytest.mark.protocol


@pytest.fixture(autouse=True)
def few_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 4)


@pytest.fixture(scope="module")
def three_weeks_old(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """Three publications, a rollback, one of a campaign and a turn that was asked for, three weeks ago; one today."""
    lake = Lake(tmp_path_factory.mktemp("old") / "lakehouse")
    with clock.use(lake.time):
        for number, day in enumerate((D1, D2, D3)):
            lake.publish(f"p{number}", {"t": {day: [f"row {number}"]}, "u": {day: ["u"]}})
        roll_back(lake.publisher(), "p2", id="back", steps=())
        approved = lake.request("approved", {"w": {D1: ["w"]}})
        lake.publisher().publish(approved.model_copy(update={"provenance": Provenance(campaign="c1")}))
        log = lake.publisher().log
        state = log.head().state
        log.append(log.head(), [{"event": "waiting", "publication": "asked"}], lambda _: state)
        lake.clock += timedelta(days=21)
        lake.publish("today", {"t": {D1: ["new"]}})
        yield lake


@pytest.fixture
def lake(three_weeks_old: Lake, tmp_path: Path) -> Iterator[Lake]:
    found = three_weeks_old.copy(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


def test_folding_moves_rows_and_loses_none(lake: Lake) -> None:
    """Every question has the same answer, before and after."""
    log = lake.publisher().log
    head = log.head()

    def answers() -> list[object]:
        read = lake.publisher().log
        told = history(lake.storage, "t")
        return [
            log_rows(read),
            read.day_states(read.head()),
            read.find_prepared("p1"),
            told,
            rollbacks(lake.storage).at("back"),
        ]

    before = answers()
    named = {*head.state.since}
    loose = foldable(log, lake.clock)
    assert fold(log, lake.clock) == len(loose) > 0
    assert answers() == before
    assert log.head().state == head.state and log.head().version > head.version
    assert named <= set(log.files().paths), "what the head names keeps a file of its own"
    assert len([path for path in log.files().paths if "/month-" in path]) >= 2, "rollbacks have files of their own"
    roll_back(lake.publisher(), "today", id="undo", steps=())
    assert lake.rows("t")[D1] == ["row 0"]


def test_each_kind_of_entry_lies_with_its_month_and_the_young_ones_stay(lake: Lake) -> None:
    """Looking for a rollback or a campaign opens no file of the daily runs."""
    log = lake.publisher().log
    young = log.files().between("at", low=lake.clock - SETTLED).paths
    assert young and fold(log, lake.clock)
    assert set(young) <= set(log.files().paths)
    found: dict[str, set[str]] = {}
    for path in log.files().paths:
        if month := re.search(r"/month-\d{4}-\d{2}-([a-z]+)-", path):
            rows = log.files().only([path]).read(["publication"])
            found[month[1]] = set(rows.column("publication").to_pylist())
    assert found == {"runs": {"p0", "p1", "p2"}, "rollbacks": {"back"}, "campaigns": {"approved"}, "notes": {"asked"}}


def test_a_month_is_written_once_enough_entries_have_settled(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    log = lake.publisher().log
    loose = len(foldable(log, lake.clock))
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", loose + 1)
    assert fold(log, lake.clock) == 0
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", loose)
    assert fold(log, lake.clock) == loose


def test_what_an_engine_put_into_one_file_is_taken_apart_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its OPTIMIZE asks for no age: what has settled goes to its month, and the rest stays together."""
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 1)
    log = lake.publisher().log
    rows = log_rows(log)
    lake.table(LOG_TABLE).optimize.compact()
    (merged,) = log.files().paths
    assert fold(log, lake.clock) == 1 and log_rows(log) == rows
    (young,) = (path for path in log.files().paths if "/month-" not in path)
    assert "/unsettled-" in young and young != merged
    assert set(log.files().only([young]).read(["publication"]).column("publication").to_pylist()) == {"today"}
    assert not foldable(log, lake.clock)


def test_a_fold_that_loses_the_race_leaves_nothing(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A publication came between: the log is as it was, and the next night folds it."""
    log = lake.publisher().log
    by_month = log_fold._by_month

    def overtaken(*asked: object) -> object:
        monkeypatch.setattr(log_fold, "_by_month", by_month)
        lake.publish("between", {"t": {D2: ["x"]}})
        return by_month(*asked)  # type: ignore[arg-type]

    monkeypatch.setattr(log_fold, "_by_month", overtaken)
    assert fold(log, lake.clock) == 0
    assert {file.path for file in lake.storage.files(ENTRIES)} == set(log.files().paths)
    assert fold(log, lake.clock) > 0


def test_an_open_entry_is_not_folded(lake: Lake) -> None:
    """However old it is: a process that meets it must read it, and what follows it is undecided."""
    log = lake.publisher().log
    request = lake.request("open", {"v": {D1: ["x"]}})
    lake.die(CrashPoint.PREPARED, request)
    lake.clock += timedelta(days=21)
    entry = log.head().state.open["open"]
    fold(log, lake.clock)
    assert entry.file in log.files().paths
    assert lake.publisher().recover() == {"open": "done"}


def test_what_folding_leaves_behind_goes_a_day_later_by_intent(lake: Lake) -> None:
    """A process that opened the log before still reads it; one that dies while deleting is carried on by the next."""
    log = lake.publisher().log
    earlier = log.files()
    loose = set(foldable(log, lake.clock))
    assert loose and fold(log, lake.clock) == len(loose)
    assert not loose & set(left_behind(log, lake.clock)) and earlier.read(["event"]).num_rows
    lake.clock += timedelta(days=2)
    assert loose <= set(left_behind(log, lake.clock))
    with pytest.raises(Died):
        reclaim(lake.publisher(dying_at(CrashPoint.RECLAIM_DELETED)), LOG_TABLE, clock_checked=True)
    finish_reclaiming(lake.publisher())
    assert set(lake.storage.missing(loose)) == loose
    assert log.find_prepared("p1") and not reclaim(lake.publisher(), LOG_TABLE, clock_checked=True)


def test_old_commits_go_and_the_log_is_read_from_its_checkpoint(lake: Lake) -> None:
    """Commits of years make each listing slower; those since the last checkpoint that is a month old are enough."""
    log = lake.publisher().log
    fold(log, lake.clock)
    lake.clock += timedelta(days=32)
    head, rows = log.head(), log_rows(log)
    assert any("/_delta_log/" in path for path in reclaim(lake.publisher(), LOG_TABLE, clock_checked=True))
    assert log.head().state.versions == head.state.versions
    assert [row for row in log_rows(log) if row["event"] not in ("reclaiming", "reclaimed")] == rows
    lake.publish("later", {"t": {D1: ["later"]}})
    assert lake.rows("t")[D1] == ["later"] and lake.storage.exists(f"{LOG_TABLE}/_delta_log")


def test_a_stream_keeps_an_hour_of_commits(tmp_path: Path) -> None:
    """A process that slept on an older version loses a race, looks again, and publishes."""
    lake = Lake(tmp_path / "stream")
    log = lake.publisher().log
    for number in range(12):
        lake.publish(f"batch-{number}", {"t": {D1: [f"row {number}"]}})
    asleep, state = log.head(), log.head().state
    assert trim(log, datetime.now(UTC)) == 0, "all of them are of this hour"
    for number in range(12, 20):
        lake.publish(f"batch-{number}", {"t": {D1: [f"row {number}"]}})
    later = datetime.now(UTC) + COMMITS_KEPT + timedelta(minutes=1)
    assert trim(log, later) > 30 and trim(log, later) == 0
    commits = [file.path for file in lake.storage.files(f"{LOG_TABLE}/_delta_log") if file.path.endswith(".json")]
    assert len(commits) <= 20, "those since the last checkpoint"
    assert not log.append(asleep, [{"event": "reclaimed", "publication": "late"}], lambda _: state)
    lake.publish("after", {"t": {D1: ["after"]}})
    assert lake.rows("t")[D1] == ["after"] and log.find_prepared("batch-3") is not None


def test_no_question_opens_more_files_when_the_log_is_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files opened for each question, at two lengths of the log: seconds depend on the machine, files do not."""
    monkeypatch.setattr(log_fold, "FOLD_FROM_FILES", 64)
    opened, years = {}, Years(tmp_path / "years", chains=1)
    with clock.use(years.time):
        years.begin()
        for number in range(84):
            if number == 28:
                opened[28] = _opened(years.copy(tmp_path / "28"), 28)
            years.pass_day(number)
        opened[84] = _opened(years, 84)
    print(opened)
    most = {
        "head": 1,
        "find a publication of the middle": 3,
        "its outcome": 4,
        "history of one day": 24,
        "newest 20 of the history": 120,
        "a sensor's tick": 60,
        "reclaimable of one table": 80,
        "roll back 90 days of 4 tables": 80,
        "publish a day": 60,
    }
    for days, found in opened.items():
        assert {name: (days, files) for name, files in found.items() if files > most[name]} == {}


def _opened(years: Years, days: int) -> dict[str, int]:
    found = {}
    with clock.use(years.time):
        years.maintain()
        for name, question in questions(years, years.end(days)).items():
            counter = Opened()
            with counter.counting():
                question()
            found[name] = len(counter.files)
    return found
