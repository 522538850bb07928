"""FINISH and CLOSE at their edges: tables that take no commit, entries given up by a person, overwritten commits."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Mapping
from contextlib import suppress

import pytest
from deltalake import DeltaTable

from backfill_assets.days import TableDay
from backfill_assets.errors import CommitRefused, InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.records import Position, Publication
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Conflict, Published, Readers
from backfill_assets.state.history import history
from backfill_assets.state.observed import observe
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.foreign import alter, delete_by_vector, demand_feature, drop_feature, overwrite
from backfill_assets_tests.protocol.lake import D1, D2, Lake, dying_at

pytestmark = pytest.mark.timeout(60)
PROPERTIES: Mapping[str, str] = {
    "delta.appendOnly": "true",
    "delta.columnMapping.mode": "name",
    "delta.checkpointPolicy": "v2",
    "delta.checkpoint.writeStatsAsJson": "false",
    "delta.setTransactionRetentionDuration": "interval 1 day",
    "delta.constraints.positive": "name > 'a'",
}
FEATURES = ("rowTracking", "domainMetadata", "identityColumns", "icebergCompatV2", "clustering", "inCommitTimestamp")


def left_open(lake: Lake, step: CrashPoint = CrashPoint.PREPARED) -> None:
    """``p1`` replaces a day of ``t`` and one of ``u``, and its process dies at ``step``."""
    lake.publish("p0", {"t": {D1: ["t0"]}, "u": {D1: ["u0"]}})
    request = lake.request("p1", {"t": {D1: ["t1"]}, "u": {D1: ["u1"]}})
    lake.die(step, request)


@pytest.fixture
def many(lake: Lake) -> Lake:
    """A table for each property and each feature."""
    lake.publish("p0", {table: {D1: ["a"]} for table in (*map(_table, PROPERTIES), *map(_table, FEATURES))})
    return lake


def _table(name: str) -> str:
    return name.replace(".", "_").lower()


def test_a_property_that_forbids_it_is_refused_before_anything_is_prepared(many: Lake) -> None:
    """By name and with what to do; an entry that cannot be finished would lock its tables."""
    for name, value in PROPERTIES.items():
        alter(many.storage, _table(name), {name: value})
        with pytest.raises(PublicationRefused, match=name.removeprefix("delta.constraints.")):
            many.publish("p1-" + _table(name).replace("_", "-"), {_table(name): {D1: ["b"]}})
        assert not many.head.open and many.rows(_table(name)) == {D1: ["a"]}


def test_a_feature_that_delta_rs_does_not_write_is_refused_before_anything_is_prepared(many: Lake) -> None:
    """Delta-rs refuses even an empty commit then: no fence and no abort could be written either."""
    for name in FEATURES:
        demand_feature(many.storage, _table(name), name)
        with pytest.raises(PublicationRefused, match=f"writer feature {name}"):
            many.publish("p1-" + _table(name).replace("_", "-"), {_table(name): {D1: ["b"]}})
        assert not many.head.open


def test_an_append_only_table_takes_appends(lake: Lake) -> None:
    """Raw is appended to: the property is a sensible one there, and compaction says that it forbids it."""
    lake.append("a1", "raw", {D1: ["x"]})
    alter(lake.storage, "raw", {"delta.appendOnly": "true"})
    assert isinstance(lake.append("a2", "raw", {D1: ["y"]}), Published)
    with pytest.raises(PublicationRefused, match=r"delta\.appendOnly=true"):
        compact(lake.publisher(), "raw", [D1], id="c1")
    assert lake.rows("raw") == {D1: ["x", "y"]}


def test_a_commit_refused_for_good_is_reported_with_the_words_of_delta_rs(lake: Lake) -> None:
    """The table has not moved, so it was no race: the table, the reason, and what to do next."""
    left_open(lake, CrashPoint.TABLE_COMMITTED)
    demand_feature(lake.storage, "u", "rowTracking")
    with pytest.raises(
        CommitRefused, match=r"(?s)u refuses the commit of p1.*RowTracking.*backfill maintain --abort p1"
    ):
        lake.publisher().finish("p1")


def test_an_entry_that_cannot_be_finished_stops_no_other_table(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    """Recovery names it and goes on; what touches its tables is refused with the reason."""
    left_open(lake)
    demand_feature(lake.storage, "u", "rowTracking")
    with caplog.at_level(logging.WARNING):
        assert lake.publisher().recover() == {}
    assert "p1 is open and cannot be finished" in caplog.text and "RowTracking" in caplog.text
    assert isinstance(lake.publish("v1", {"v": {D1: ["v"]}}), Published)
    with pytest.raises(CommitRefused, match="RowTracking"):
        lake.publisher().recover(["t"])
    with pytest.raises(CommitRefused, match="RowTracking"):
        lake.publish("t2", {"t": {D2: ["t2"]}})


@pytest.mark.parametrize("broken", [False, True], ids=["is finished first", "cannot be finished"])
def test_what_is_under_way_for_readers_is_looked_at_and_stops_nobody(lake: Lake, *, broken: bool) -> None:
    """Who names the readers of v looks at t, which an open entry writes: it reads v, and would be unnamed."""
    left_open(lake)
    if broken:
        demand_feature(lake.storage, "u", "rowTracking")
    under_way = list[bool]()

    def completed(request: Publication) -> Publication:
        under_way.append(bool(lake.head.open))
        return request

    readers = Readers(lambda _: frozenset("t"), completed)
    assert isinstance(lake.publisher().publish(lake.request("v1", {"v": {D1: ["v"]}}), readers), Published)
    assert set(under_way) == {broken}


def test_a_commit_that_is_there_is_closed_whatever_others_do_to_its_files(lake: Lake) -> None:
    """No publication can carry a deletion vector; this one has only to say that it is done, or it locks its tables."""
    left_open(lake, CrashPoint.CLOSING)
    delete_by_vector(lake.storage, "t")
    assert lake.publisher().finish("p1") == "done"
    assert isinstance(lake.publish("u2", {"u": {D1: ["u2"]}}), Published)
    with pytest.raises(PublicationRefused, match="deletion vector"):
        lake.publish("t2", {"t": {D1: ["t2"]}})


@pytest.mark.parametrize("lost", [False, True], ids=["row tracking was switched on", "a table was deleted by hand"])
def test_a_person_aborts_what_cannot_be_finished(lake: Lake, lost: bool) -> None:
    """Tables that can be put back are; the other is left, and pinned readers keep the version that they had."""
    left_open(lake)
    if lost:
        shutil.rmtree(lake.root / "u")
    else:
        demand_feature(lake.storage, "u", "rowTracking")
    left = lake.publisher().abort("p1", by="ana", reason="it cannot be finished")
    assert left.keys() == {"u"} and (lost or "RowTracking" in left["u"])
    assert not lake.head.open and lake.head.outcomes["p1"] == "aborted"
    assert lake.rows("t") == {D1: ["t0"]} and (lost or lake.rows("u") == {D1: ["u0"]})
    told = history(lake.storage)[0]
    assert told.outcome == "aborted" and "aborted by ana: it cannot be finished" in told.reason
    assert isinstance(lake.publish("t2", {"t": {D1: ["t2"]}}), Published)


def test_what_an_abort_cannot_take_back_is_no_part_of_what_is_published(lake: Lake) -> None:
    """The rows that stay in main are a foreign write for the log, and readers of the log do not see them."""
    left_open(lake, CrashPoint.TABLE_COMMITTED)
    demand_feature(lake.storage, "t", "rowTracking")
    assert lake.publisher().abort("p1", by="ana").keys() == {"t"}
    versions = lake.head.versions
    assert lake.rows("t", versions["t"]) == {D1: ["t0"]} and lake.rows("u", versions["u"]) == {D1: ["u0"]}
    observed = observe(lake.storage, ["t"])
    assert observed.newest["t"][D1] != observed.states[TableDay("t", D1)].physical


@pytest.mark.parametrize(
    ("left_at", "killed_at"),
    [
        (CrashPoint.PREPARED, None),
        (CrashPoint.TABLE_COMMITTED, None),
        (CrashPoint.CLOSING, None),
        (CrashPoint.PREPARED, CrashPoint.FENCED),
        (CrashPoint.TABLE_COMMITTED, CrashPoint.ABORT_DECIDED),
        (CrashPoint.TABLE_COMMITTED, CrashPoint.RESTORED),
        (CrashPoint.CLOSING, CrashPoint.CLOSING),
    ],
    ids=str,
)
def test_a_file_whose_ingestion_was_aborted_is_read_once_by_the_next(
    lake: Lake, left_at: CrashPoint, killed_at: CrashPoint | None
) -> None:
    """Its rows and its position go back together, also where the abort is killed and made again."""
    known, new = Position(id="topic", before=None, after=5), Position(id="landed:a", before=None, after=77)
    lake.append("a0", "raw", {D1: ["old"]}, known)
    both = (known.model_copy(update={"before": 5, "after": 9}), new)
    request = lake.request("a1", {"raw": {D1: ["x"], D2: ["y"]}}, kind="append", positions=both)
    lake.die(left_at, request)
    if killed_at is not None:
        with suppress(Died):
            lake.publisher(dying_at(killed_at)).abort("a1", by="ana")
    if "a1" in lake.head.open:
        assert lake.publisher().abort("a1", by="ana") == {}
    main = lake.table("raw")
    assert lake.rows("raw") == {D1: ["old"]}
    assert main.transaction_version("topic") == 5 and not main.transaction_version("landed:a")
    assert isinstance(lake.append("a2", "raw", {D1: ["x"], D2: ["y"]}, *both), Published)
    assert lake.rows("raw") == {D1: ["old", "x"], D2: ["y"]}
    assert lake.table("raw").transaction_version("landed:a") == 77


def test_only_an_open_entry_is_aborted(lake: Lake) -> None:
    """What is done is rolled back, and a mistyped name is said to be one."""
    lake.publish("p0", {"t": {D1: ["a"]}})
    with pytest.raises(InvalidRequest, match=r"(?s)p0 is not open: it is done.*backfill rollback p0"):
        lake.publisher().abort("p0")
    for deed in (lake.publisher().abort, lake.publisher().finish):
        with pytest.raises(PublicationRefused, match="never prepared"):
            deed("typo")


# ------------------------------------------------------------------------- CLOSE


def publish_over(lake: Lake) -> Published | Conflict:
    """Publish ``p1`` to two tables; the first commit is overwritten."""
    lake.publish("p0", {"t": {D1: ["t0"]}, "u": {D1: ["u0"]}})
    overwritten: list[str] = []

    def reached(step: CrashPoint, about: str) -> None:
        if step == CrashPoint.TABLE_COMMITTED and not overwritten:
            overwritten.append(about)
            overwrite(lake.storage, "t", lake.table("t").version())

    return lake.publisher(reached).publish(lake.request("p1", {"t": {D1: ["t1"]}, "u": {D1: ["u1"]}}))


def test_closing_demands_the_commit_of_each_table(lake: Lake) -> None:
    """An overwritten commit is made again: otherwise pinned readers would see one table of two."""
    assert isinstance(publish_over(lake), Published)
    versions = lake.head.versions
    assert (lake.rows("t", versions["t"]), lake.rows("u", versions["u"])) == ({D1: ["t1"]}, {D1: ["u1"]})


def test_closing_an_abort_demands_its_fences(lake: Lake) -> None:
    """The same for the way back: a fence that is gone is put up again."""
    left_open(lake)
    lake.foreign_rows("t", {D1: ["foreign"]})
    fences: list[str] = []

    def reached(step: CrashPoint, about: str) -> None:
        if step == CrashPoint.FENCED:
            fences.append(about)
            if len(fences) == 1:
                overwrite(lake.storage, "t", lake.table("t").version())

    assert lake.publisher(reached).finish("p1") == "aborted"
    assert [DeltaTable(lake.storage.uri(table)).transaction_version("p1") for table in ("t", "u")] == [0, 0]


@pytest.mark.parametrize("forgotten", [False, True], ids=["its entries", "the properties that it needs"])
def test_a_log_that_refuses_its_commits_is_named(lake: Lake, forgotten: bool) -> None:
    """No other writer was faster there: nothing is tried again, and the words of delta-rs are shown.

    A log from before it had the properties gets them with the next entry.
    """
    lake.publish("p0", {"t": {D1: ["a"]}})
    if forgotten:
        alter(lake.storage, "_publications", {"delta.enableExpiredLogCleanup": None})
    demand_feature(lake.storage, "_publications", "rowTracking")
    held = set(lake.storage.files("_publications", recursive=True))
    with pytest.raises(CommitRefused, match=r"(?s)_publications refuses an entry.*RowTracking"):
        lake.publish("p1", {"t": {D1: ["b"]}})
    assert set(lake.storage.files("_publications", recursive=True)) == held


def test_a_slow_process_does_not_commit_past_an_abort_by_hand(lake: Lake) -> None:
    """The abort could put no fence into a table, which can be written again by the time the slow one gets there."""
    lake.publish("p0", {"t": {D1: ["t0"]}, "u": {D1: ["u0"]}})
    slept: list[str] = []

    def reached(step: CrashPoint, about: str) -> None:
        if step == CrashPoint.LOG_READ and lake.head.open and not slept:
            slept.append(about)
            demand_feature(lake.storage, "t", "rowTracking")
            assert lake.publisher().abort("p1", by="ana").keys() == {"t"}
            drop_feature(lake.storage, "t", "rowTracking")

    request = lake.request("p1", {"t": {D1: ["t1"]}, "u": {D1: ["u1"]}})
    assert isinstance(lake.publisher(reached).publish(request), Conflict)
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["t0"]}, {D1: ["u0"]})
