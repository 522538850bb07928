"""Rolling back: the days get the files they had before, in all tables at once, or nothing happens at all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pyarrow as pa
import pytest

from backfill_assets.campaign.rollback import roll_back
from backfill_assets.days import TableDay
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.records import DayState, Position
from backfill_assets.publish.compact import compact
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published, Publisher
from backfill_assets_tests.death import Died
from backfill_assets_tests.protocol.lake import D1, D2, Lake, dying_at

pytestmark = pytest.mark.protocol


def test_all_tables_go_back_together_with_what_the_log_knows(lake: Lake) -> None:
    """Files, content and status of every day are those from before the publication."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    before = {key: state.content for key, state in _states(lake).items()}
    files = _add_actions(lake, "t")
    assert [file["num_records"] for file in files] == [1]
    lake.publish("p2", {"t": {D1: ["A"], D2: ["new"]}, "u": {D1: ["B"]}})
    assert isinstance(roll_back(lake.publisher(), "p2", id="undo", steps=()), Published)
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["a"]}, {D1: ["b"]})
    assert _add_actions(lake, "t") == files, "with sizes and statistics, which readers prune by"
    after = {key: state.content for key, state in _states(lake).items()}
    assert after == before | {TableDay("t", D2): None}


def _add_actions(lake: Lake, table: str) -> list[dict[str, object]]:
    """The active files as delta-rs lists them: with sizes, counts, smallest and greatest values."""
    return list(pa.table(lake.table(table).get_add_actions(flatten=True)).to_pylist())


def _states(lake: Lake) -> dict[TableDay, DayState]:
    log = lake.publisher().log
    return dict(log.day_states(log.head()))


def test_rolling_back_an_append_returns_its_positions(lake: Lake) -> None:
    """The landed file counts as not taken in, and can be appended again: once."""
    one = Position(id="landed:file", before=None, after=1)
    lake.append("a1", "raw", {D1: ["x"]}, one)
    roll_back(lake.publisher(), "a1", id="undo", steps=())
    assert lake.table("raw").transaction_version("landed:file") == 0
    assert lake.rows("raw") == {}
    assert isinstance(lake.append("a2", "raw", {D1: ["x"]}, one), Published)
    assert lake.rows("raw") == {D1: ["x"]}
    roll_back(lake.publisher(), "a2", id="undo2", steps=())
    roll_back(lake.publisher(), "undo2", id="redo", steps=())
    assert lake.rows("raw") == {D1: ["x"]}, "the undo of the undo is the publication again"
    assert lake.table("raw").transaction_version("landed:file") == 1


def test_a_day_that_was_published_since_is_not_undone(lake: Lake) -> None:
    """The later publication would be undone with it, silently, in one of its tables: it has to go first."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"], D2: ["c"]}})
    lake.publish("p3", {"t": {D2: ["d"]}})
    with pytest.raises(PublicationRefused, match=str(D2)):
        roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert lake.rows("t") == {D1: ["b"], D2: ["d"]}
    roll_back(lake.publisher(), "p3", id="undo3", steps=())
    roll_back(lake.publisher(), "p2", id="undo2", steps=())
    assert lake.rows("t") == {D1: ["a"]}


def test_equal_rows_of_a_later_publication_are_not_undone(lake: Lake) -> None:
    """They were computed again, perhaps from other inputs."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.publish("p3", {"t": {D1: ["b"]}})
    with pytest.raises(PublicationRefused, match=str(D1)):
        roll_back(lake.publisher(), "p2", id="undo", steps=())


def test_one_that_is_undone_names_what_undid_it_also_after_a_compaction(lake: Lake) -> None:
    """As long as that is what the days hold; where later rows are, the later publications are named."""
    for name in ("a0", "a1"):
        lake.append(name, "t", {D1: [name]})
    lake.publish("p1", {"t": {D1: ["A"], D2: ["B"]}})
    roll_back(lake.publisher(), "p1", id="undo", steps=())
    assert isinstance(compact(lake.publisher(), "t", [D1], id="small"), Published)
    with pytest.raises(InvalidRequest, match="p1 is undone already: undo did it on ") as refused:
        roll_back(lake.publisher(), "p1", id="again", steps=())
    assert refused.value.hint == "To bring it back: backfill rollback undo"
    roll_back(lake.publisher(), "undo", id="redo", steps=())
    assert lake.rows("t") == {D1: ["A"], D2: ["B"]}
    with pytest.raises(InvalidRequest, match="undo is undone already: redo did it on "):
        roll_back(lake.publisher(), "undo", id="again", steps=())
    lake.publish("since", {"t": {D1: ["C"], D2: ["D"]}})
    with pytest.raises(PublicationRefused, match="Roll back the later publications first"):
        roll_back(lake.publisher(), "p1", id="again", steps=())


def _meanwhile(lake: Lake, do: Callable[[], object]) -> tuple[Publisher, list[str]]:
    """A publisher, and its looks at the log for ``undo``: after the first one, ``do`` is done."""
    looks = list[str]()

    def reached(at: CrashPoint, about: str) -> None:
        if (at, about) == (CrashPoint.LOG_READ, "undo"):
            looks.append(about)
            if len(looks) == 1:
                do()

    return lake.publisher(reached), looks


def test_what_is_compacted_meanwhile_is_rolled_back_all_the_same(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    for id in ("a1", "a2"):
        lake.append(id, "t", {D1: [id]})
    publisher, looks = _meanwhile(lake, lambda: compact(lake.publisher(), "t", [D1], id="small"))
    assert roll_back(publisher, "a2", id="undo", steps=()).publication == "undo"
    assert (len(looks), lake.rows("t")) == (3, {D1: ["a", "a1"]})


def test_what_is_published_meanwhile_is_not_rolled_back(lake: Lake) -> None:
    """One look is enough: what others have published stays."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    publisher, looks = _meanwhile(lake, lambda: lake.publish("p3", {"t": {D1: ["c"]}}))
    with pytest.raises(PublicationRefused, match="p2 cannot be rolled back as it is: another writer published"):
        roll_back(publisher, "p2", id="undo", steps=())
    assert (len(looks), lake.rows("t")) == (1, {D1: ["c"]})


def test_an_append_whose_source_moved_on_is_not_undone(lake: Lake) -> None:
    """Its position cannot go back below those of a later append, also when that touched other days only."""
    lake.append("a1", "raw", {D1: ["x"]}, Position(id="topic", before=None, after=1))
    lake.append("a2", "raw", {D2: ["y"]}, Position(id="topic", before=1, after=2))
    with pytest.raises(PublicationRefused, match="topic"):
        roll_back(lake.publisher(), "a1", id="undo", steps=())
    assert lake.rows("raw") == {D1: ["x"], D2: ["y"]}


def test_of_many_reasons_the_days_are_named_before_the_positions(lake: Lake) -> None:
    """A topic has many partitions, and not all reasons are shown."""
    for id, before in (("a1", None), ("a2", 1)):
        moved = [Position(id=f"partition {n}", before=before, after=(before or 0) + 1) for n in range(3)]
        lake.append(id, "raw", {D1: [id]}, *moved)
    with pytest.raises(PublicationRefused, match=f"changed raw {D1} .*; and 1 more"):
        roll_back(lake.publisher(), "a1", id="undo", steps=())


def test_foreign_rows_refuse_the_rollback_and_foreign_files_come_back(lake: Lake) -> None:
    """What others wrote after it stays; what others had written before it is restored from the full add actions."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}})
    lake.foreign_rows("t", {D1: ["foreign"]})
    lake.publish("p2", {"t": {D1: ["c"]}})
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert lake.rows("t") == {D1: ["a", "foreign"], D2: ["b"]}
    lake.publish("p3", {"t": {D2: ["d"]}})
    lake.foreign_rows("t", {D2: ["more"]})
    with pytest.raises(PublicationRefused, match=str(D2)):
        roll_back(lake.publisher(), "p3", id="undo3", steps=())


def test_an_expired_window_is_refused(lake: Lake) -> None:
    """The files may be reclaimed by now: better a clear no than a table that names files that are gone."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    lake.clock += timedelta(days=31)
    with pytest.raises(PublicationRefused, match="window of p2 is over: it was published 31 days ago"):
        roll_back(lake.publisher(), "p2", id="undo", steps=())


def test_files_that_are_gone_are_named(lake: Lake) -> None:
    """They were deleted past all rules: nothing is half restored."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    lost = next(iter(lake.state("u").active))
    lake.publish("p2", {"t": {D1: ["A"]}, "u": {D1: ["B"]}})
    (lake.root / "u" / lost).unlink()
    with pytest.raises(PublicationRefused, match=lost):
        roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["A"]}, {D1: ["B"]})


def test_unknown_and_aborted_publications_are_distinguished(lake: Lake) -> None:
    with pytest.raises(InvalidRequest, match="no publication 'unknown'"):
        roll_back(lake.publisher(), "unknown", id="undo", steps=())
    request = lake.request("p1", {"t": {D1: ["a"]}})
    with pytest.raises(Died):
        lake.publisher(dying_at(CrashPoint.PREPARED)).publish(request)
    lake.foreign_rows("t", {D1: ["foreign"]})
    with pytest.raises(InvalidRequest, match="was aborted"):
        roll_back(lake.publisher(), "p1", id="undo", steps=())


def test_columns_gained_since_stay(lake: Lake) -> None:
    """Going back to files of an older schema keeps the table's columns: they read as null."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.publish("p2", {"t": {D1: ["b"]}}, extra=1)
    roll_back(lake.publisher(), "p2", id="undo", steps=())
    assert lake.table("t").to_pyarrow_table().column("extra_0").to_pylist() == [None]
