"""Publishing: compare-and-swap on days and inputs, refusals before anything is committed, and outcomes from the log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable, PublicationRefused
from backfill_assets.lakehouse import fingerprints
from backfill_assets.lakehouse.delta_log import LogState
from backfill_assets.lakehouse.records import DayContent, Position, Publication, TableChange
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import head
from backfill_assets.publish import pinned as pin_module
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Conflict, Published, Publisher
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake
from backfill_assets_tests.protocol.staging import content, rows_table, stage


def test_days_are_replaced_and_others_stay(lake: Lake) -> None:
    """The day is the unit: a publication touches the days it lists and no other, and a day may become empty."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"], D3: ["c"]}})
    lake.publish("p2", {"t": {D1: ["A"], D3: []}})
    assert lake.rows("t") == {D1: ["A"], D2: ["b"]}
    states = lake.publisher().log.day_states(lake.publisher().log.head())
    empty = states[TableDay("t", D3)].content
    assert empty is not None
    assert (empty.rows, states[TableDay("t", D3)].publication) == (0, "p2")


def test_only_the_moved_days_come_back(lake: Lake) -> None:
    """What others published since staging is refused by day, so that no more is staged again than has to be."""
    pin = lake.pin({"t": {D1: [], D2: []}})
    lake.publish("other", {"t": {D2: ["theirs"]}})
    moved = lake.publish("mine", {"t": {D1: ["a"], D2: ["b"]}}, pin)
    assert isinstance(moved, Conflict)
    assert moved.days == {"t": frozenset({D2})}
    assert str(D2) in moved.reasons[0]
    assert lake.rows("t") == {D2: ["theirs"]}


def test_a_foreign_write_refuses_the_day_until_it_is_known(lake: Lake) -> None:
    """A writer that bypasses the protocol is not silently undone; a later stager that saw the rows may replace them."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    pin = lake.pin({"t": {D1: []}})
    lake.foreign_rows("t", {D1: ["foreign"]})
    assert isinstance(lake.publish("p2", {"t": {D1: ["b"]}}, pin), Conflict)
    assert lake.rows("t") == {D1: ["a", "foreign"]}
    assert isinstance(lake.publish("p3", {"t": {D1: ["c"]}}), Published)
    assert lake.rows("t") == {D1: ["c"]}


def test_equal_files_may_have_been_away(lake: Lake) -> None:
    """The same files under another publication are another state: what was read in between is not known."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    pin = lake.pin({"t": {D1: []}})
    lake.publish("p2", {"t": {D1: ["b"]}})
    back = lake.request("p3", {"t": {D1: ["a"]}}).tables[0]
    first = lake.publisher().log.find_prepared("p1")
    assert first is not None
    adds = first[0].publication.tables[0].days[0].adds
    day = back.days[0].model_copy(update={"adds": adds})
    change = back.model_copy(update={"days": (day,)})
    assert isinstance(lake.publisher().publish(Publication(id="p3", kind="replace", tables=(change,))), Published)
    assert lake.state("t").by_day() == {D1: frozenset(pin.expected[TableDay("t", D1)].files)}
    assert isinstance(lake.publish("late", {"t": {D1: ["late"]}}, pin), Conflict)


def test_a_file_that_main_already_has_is_not_added_again(lake: Lake) -> None:
    """With add and remove of one path in a commit, Spark loses the day that delta-rs still shows."""
    first = lake.request("p1", {"t": {D1: ["a"]}})
    lake.publisher().publish(first)
    assert list(lake.state("t").active) == [add.path for add in first.tables[0].days[0].adds], "no byte is moved"
    pin = lake.pin({"t": {D1: []}})
    change = first.tables[0]
    same = change.days[0].model_copy(update={"expected": pin.expected[TableDay("t", D1)]})
    again = Publication(id="p2", kind="replace", tables=(change.model_copy(update={"days": (same,)}),))
    assert isinstance(lake.publisher().publish(again), Published)
    commit = (lake.root / "t" / "_delta_log" / f"{lake.table('t').version():020d}.json").read_text()
    assert '"add"' not in commit
    assert '"remove"' not in commit


# ------------------------------------------------------------------------ inputs


def _gains_a_row(lake: Lake) -> None:
    lake.append("a2", "raw", {D1: ["y"]})


def _loses_the_version_that_was_read(lake: Lake) -> None:
    """Whether rows were only gained is unknown without it."""
    _gains_a_row(lake)
    lake.table("raw").create_checkpoint()
    (lake.root / "raw" / "_delta_log" / f"{1:020d}.json").unlink()


def _is_replaced(lake: Lake) -> None:
    lake.publish("p0", {"raw": {D1: ["z"]}})


def _is_compacted(lake: Lake) -> None:
    assert isinstance(lake.publisher().publish(lake.request("c1", {"raw": {D1: ["x"]}}, kind="compact")), Published)


@pytest.mark.parametrize(
    ("happens", "exact", "refused"),
    [
        pytest.param(_gains_a_row, False, False, id="gains_rows"),
        pytest.param(_gains_a_row, True, True, id="gains_rows_and_was_asked_for_exactly"),
        pytest.param(_is_replaced, False, True, id="is_replaced"),
        pytest.param(_is_compacted, True, False, id="is_compacted"),
        pytest.param(_loses_the_version_that_was_read, False, True, id="loses_the_version_that_was_read"),
    ],
)
def test_an_input_is_compared_by_what_it_holds_and_may_gain_rows_unless_it_was_asked_for_exactly(
    lake: Lake, happens: Callable[[Lake], None], exact: bool, refused: bool
) -> None:
    """Demanding equal inputs would starve every report under a steady stream; rows that no longer count are wrong."""
    lake.append("a1", "raw", {D1: ["x"], D2: ["y"]})
    pin = lake.pin({"t": {D1: []}}, {"raw": [D1, D2]}, exact=exact)
    happens(lake)
    request = lake.request("p1", {"t": {D1: ["of x"]}}, pin, inputs=tuple(pin.inputs.values()))
    moved = lake.publisher().publish(request)
    assert isinstance(moved, Conflict) == refused
    if isinstance(moved, Conflict):
        assert (moved.days, D1 in moved.inputs["raw"]) == ({}, True)
        assert moved.reads == tuple(pin.inputs.values()) and not moved.gone and not moved.passed
    if happens is _is_replaced and isinstance(moved, Conflict):
        assert moved.inputs == {"raw": frozenset({D1})}


def test_inputs_are_read_at_the_last_closed_map(lake: Lake) -> None:
    """A publication that is under way may still be aborted: nothing may be computed from it."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    request = lake.request("p2", {"t": {D1: ["A"]}, "u": {D1: ["B"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    pin = lake.pin({}, {"t": [D1]})
    assert pin.inputs["t"].version == lake.table("t").version() - 1
    assert lake.rows("t", pin.inputs["t"].version) == {D1: ["a"]}
    assert pin.inputs["t"].days[D1] == content(["a"]).logical


def test_the_expected_state_is_captured_before_inputs_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else another writer's newer result, of newer inputs, would be taken for the state that ours replaces."""
    lake.append("a1", "raw", {D1: ["x"]})
    lake.publish("p1", {"t": {D1: ["of x"]}})
    really = pin_module.pinned_files

    def overtaken(*arguments: Any) -> LogState:
        monkeypatch.setattr(pin_module, "pinned_files", really)
        found = really(*arguments)
        lake.append("a2", "raw", {D1: ["y"]})
        lake.publish("p2", {"t": {D1: ["of x", "of y"]}})
        return found

    monkeypatch.setattr(pin_module, "pinned_files", overtaken)
    pin = lake.pin({"t": {D1: []}}, {"raw": [D1]})
    request = lake.request("p3", {"t": {D1: ["of x"]}}, pin, inputs=tuple(pin.inputs.values()))
    assert isinstance(lake.publisher().publish(request), Conflict)
    assert lake.rows("t") == {D1: ["of x", "of y"]}


# ------------------------------------------------------------------- append mode


def test_appends_add_rows_counts_and_checksums(lake: Lake) -> None:
    """Appends commute: nothing of a day is expected but its position, and the log knows what the day holds in sum."""
    lake.append("a1", "raw", {D1: ["x"]}, Position(id="topic", before=None, after=1))
    lake.append("a2", "raw", {D1: ["y"], D2: ["z"]}, Position(id="topic", before=1, after=3))
    assert lake.rows("raw") == {D1: ["x", "y"], D2: ["z"]}
    assert lake.table("raw").transaction_version("topic") == 3
    states = lake.publisher().log.day_states(lake.publisher().log.head())
    known = states[TableDay("raw", D1)].content
    assert known is not None
    assert known.logical == content(["x", "y"]).logical


def test_a_position_counts_once(lake: Lake) -> None:
    """A landed file that two runs read is taken in by one of them; the other is refused. One without rows counts."""
    first = Position(id="landed:file", before=None, after=1)
    assert isinstance(lake.append("a1", "raw", {D1: ["x"]}, first), Published)
    moved = lake.append("a2", "raw", {D1: ["x"]}, first)
    assert isinstance(moved, Conflict)
    assert "landed:file" in moved.reasons[0]
    assert isinstance(lake.append("a3", "raw", {}, first), Conflict)
    assert isinstance(lake.append("a4", "raw", {}, Position(id="empty", before=None, after=1)), Published)
    assert lake.rows("raw") == {D1: ["x"]} and lake.table("raw").transaction_version("empty") == 1


def test_many_positions_cost_no_more_reads_of_the_log_than_one(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand files that land at once have as many; and no file of the table's log is read twice."""
    lake.append("a0", "raw", {D1: ["x"]})
    read: list[str] = []

    def reading(storage: Storage, path: str) -> list[dict[str, Any]]:
        read.append(path)
        return read_json_lines(storage, path)

    read_json_lines = Storage.read_json_lines
    monkeypatch.setattr(Storage, "read_json_lines", reading)
    for id, count in (("one", 1), ("many", 200)):
        positions = [Position(id=f"{id}-{number}", before=None, after=1) for number in range(count)]
        assert isinstance(lake.append(id, "raw", {D1: [id]}, *positions), Published)
        of_raw = Counter(path for path in read if path.startswith("raw/"))
        read.clear()
        # By what has it once for all, and of its own commit by what looks for that one's number.
        assert max(of_raw.values()) <= 2, (id, of_raw)


def test_all_that_moved_on_is_named_in_one_refusal(lake: Lake) -> None:
    """Of each table, so that nothing is staged again for what is only the first of several reasons."""
    of_a, of_b = Position(id="a", before=None, after=1), Position(id="b", before=None, after=1)
    lake.publish("p0", {"u": {D1: ["u"]}})
    pin = lake.pin({"r": {D1: []}, "s": {D2: []}, "u": {D1: [], D2: []}})
    tables = (
        lake.staged("r", "mine", {D1: ["x"]}, pin, "append", (of_a,)),
        lake.staged("s", "mine", {D2: ["y"]}, pin, "append", (of_b,)),
        lake.staged("u", "mine", {D1: ["z"], D2: ["z"]}, pin),
    )
    for table, day, position in (("r", D3, of_a), ("s", D3, of_b)):
        lake.append(f"their-{table}", table, {day: ["theirs"]}, position)
    lake.publish("p1", {"u": {D1: ["v"]}})
    request = Publication(id="mine", kind="append", tables=tables)
    moved = lake.publisher().publish(request)
    assert moved == lake.publisher().foresee(request) and isinstance(moved, Conflict)
    assert moved.days == {"r": frozenset({D1}), "s": frozenset({D2}), "u": frozenset({D1})}
    assert moved.passed == ("a", "b") and not moved.gone and len(moved.reasons) == 3
    lake.storage.delete(f"r/{tables[0].days[0].adds[0].path}")
    lost = lake.publisher().foresee(request)
    assert isinstance(lost, Conflict) and lost.gone and lost.days == moved.days and len(lost.reasons) == 4


def test_what_is_aborted_comes_back_as_days_to_stage_again(lake: Lake) -> None:
    """A foreign writer came between preparing and committing: none of its days is in, in no table."""
    request = lake.request("p1", {"t": {D1: ["a"], D2: ["b"]}, "u": {D1: ["c"]}})

    def overtaken(step: CrashPoint, _about: str) -> None:
        if step is CrashPoint.PREPARED:
            lake.foreign_rows("u", {D1: ["foreign"]})

    moved = lake.publisher(overtaken).publish(request)
    assert isinstance(moved, Conflict) and "p1 was under way, so it was aborted" in moved.reasons[0]
    assert moved.days == {"t": frozenset({D1, D2}), "u": frozenset({D1})}
    assert lake.rows("t") == {} and lake.rows("u") == {D1: ["foreign"]}


@pytest.mark.parametrize(("before", "after"), [(None, 0), (3, 3)])
def test_a_position_that_does_not_move_is_refused(lake: Lake, before: int | None, after: int) -> None:
    """It would look like one that was never committed, so its rows would be taken in again."""
    with pytest.raises(PublicationRefused, match="does not move on"):
        lake.append("a1", "raw", {D1: ["x"]}, Position(id="topic", before=before, after=after))


def test_the_same_file_cannot_be_appended_twice(lake: Lake) -> None:
    """The table would hold it once and the log count it twice."""
    request = lake.request("a1", {"raw": {D1: ["x"]}}, kind="append")
    lake.publisher().publish(request)
    assert isinstance(lake.publisher().publish(request.model_copy(update={"id": "a2"})), Conflict)
    state = lake.day("raw", D1)
    assert state.content is not None
    assert state.content.rows == 1


def test_appending_to_foreign_rows_leaves_the_day_foreign(lake: Lake) -> None:
    """What another writer wrote was never measured: the log must not claim to know the sum."""
    lake.append("a1", "raw", {D1: ["x"]})
    lake.foreign_rows("raw", {D1: ["foreign"]})
    lake.append("a2", "raw", {D1: ["y"]})
    state = lake.day("raw", D1)
    assert state.content is None
    assert state.logical_at(state.physical) == fingerprints.foreign(state.physical)


def test_a_position_that_a_foreign_stream_moved_aborts_the_append(lake: Lake) -> None:
    """Positions are compared at the commit as well: a stream that bypasses the protocol has taken in the same rows."""
    lake.append("a0", "raw", {D2: ["w"]})
    request = lake.request(
        "a1", {"raw": {D1: ["x"]}}, kind="append", positions=(Position(id="s", before=None, after=1),)
    )
    lake.die(CrashPoint.PREPARED, request)
    stream = CommitProperties(app_transactions=[Transaction("s", 1)])
    write_deltalake(lake.storage.uri("raw"), rows_table({D3: ["x"]}), mode="append", commit_properties=stream)
    assert lake.publisher().recover() == {"a1": "aborted"}
    assert lake.rows("raw") == {D2: ["w"], D3: ["x"]}


# ------------------------------------------------------------- schema, partitions


def test_a_new_nullable_column_evolves_the_table_in_the_same_commit(lake: Lake) -> None:
    """Readers see the column with the first rows that have it, appended ones too; other rows and days stay."""
    lake.publish("p1", {"t": {D1: ["a"], D2: ["b"]}})
    version = lake.table("t").version()
    assert isinstance(lake.publish("p2", {"t": {D1: ["A"]}}, extra=1), Published)
    assert isinstance(
        lake.publisher().publish(lake.request("a1", {"t": {D2: ["c"]}}, kind="append", extra=2)), Published
    )
    assert lake.table("t").version() == version + 2
    rows = lake.table("t").to_pyarrow_table().to_pylist()
    assert {row["name"]: (row["extra_0"], row["extra_1"]) for row in rows} == {
        "A": ("e0", None),
        "b": (None, None),
        "c": ("e0", "e1"),
    }


def test_a_new_column_does_not_narrow_the_old_ones(lake: Lake) -> None:
    """A staged column may be stricter than main's; main's older rows may still hold nulls."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    request = lake.request("p2", {"t": {D2: ["b"]}}, extra=1)
    schema = json.loads(request.tables[0].table_schema)
    schema["fields"][0]["nullable"] = False
    change = request.tables[0].model_copy(update={"table_schema": json.dumps(schema)})
    lake.publisher().publish(Publication(id="p2", kind="replace", tables=(change,)))
    assert [field.nullable for field in lake.table("t").schema().fields] == [True, True, True]


def _other_schema(change: TableChange, **field: object) -> TableChange:
    schema = json.loads(change.table_schema)
    known = [each for each in schema["fields"] if each["name"] != field["name"]]
    schema["fields"] = [*known, {"metadata": {}, "type": "string", "nullable": True, **field}]
    return change.model_copy(update={"table_schema": json.dumps(schema)})


def _with_field(**field: object) -> Callable[[Lake], Publication]:
    def request(lake: Lake) -> Publication:
        asked = lake.request("p2", {"t": {D1: ["b"]}})
        return asked.model_copy(update={"tables": (_other_schema(asked.tables[0], **field),)})

    return request


def _without_a_column(lake: Lake) -> Publication:
    lake.publish("p1", {"t": {D1: ["a"]}}, extra=1)
    return lake.request("p2", {"t": {D1: ["b"]}})


def _to_a_strict_table(lake: Lake) -> Publication:
    strict = Schema([Field("name", PrimitiveType("string"), nullable=False), Field("day", PrimitiveType("date"))])
    DeltaTable.create(lake.storage.uri("strict"), strict, partition_by=["day"])
    return lake.request("p2", {"strict": {D1: ["b"]}})


def _to_other_partitions(lake: Lake) -> Publication:
    write_deltalake(lake.storage.uri("by_name"), rows_table({D1: ["a"]}), partition_by=["name"])
    return lake.request("p2", {"by_name": {D2: ["b"]}})


def _with_a_file_of_another_day(lake: Lake) -> Publication:
    request = lake.request("p2", {"t": {D1: ["a"], D2: ["b"]}})
    first, second = request.tables[0].days
    wrong = request.tables[0].model_copy(update={"days": (first, second.model_copy(update={"adds": first.adds}))})
    return request.model_copy(update={"tables": (wrong,)})


def _with_a_table_twice(lake: Lake) -> Publication:
    request = lake.request("p2", {"t": {D1: ["b"]}})
    return request.model_copy(update={"tables": request.tables * 2})


def _with_a_day_twice(lake: Lake) -> Publication:
    request = lake.request("p2", {"t": {D1: ["b"]}})
    days = request.tables[0].model_copy(update={"days": request.tables[0].days * 2})
    return request.model_copy(update={"tables": (days,)})


def _with_a_checksum_that_is_none(lake: Lake) -> Publication:
    request = lake.request("a2", {"t": {D1: ["y"]}}, kind="append")
    day = request.tables[0].days[0].model_copy(update={"content": DayContent(rows=1, checksum="none")})
    return request.model_copy(update={"tables": (request.tables[0].model_copy(update={"days": (day,)}),)})


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        pytest.param(_with_field(name="name", type="long"), "name is long but the table has string", id="other_type"),
        pytest.param(_with_field(name="new", nullable=False), "the new column new is not nullable", id="not_nullable"),
        pytest.param(_with_field(name="Name"), "differs from another one only by case", id="other_case"),
        pytest.param(_without_a_column, "extra_0 is missing", id="missing_column"),
        pytest.param(_to_a_strict_table, "name may be null", id="nulls_where_the_table_forbids_them"),
        pytest.param(_to_other_partitions, "partitioned by", id="table_with_other_partitions"),
        pytest.param(_with_a_file_of_another_day, f"holds {D1}, not {D2}", id="file_of_another_day"),
        pytest.param(_with_a_table_twice, "more than once", id="table_twice"),
        pytest.param(_with_a_day_twice, "more than once", id="day_twice"),
        pytest.param(_with_a_checksum_that_is_none, "none", id="content_that_cannot_be_added_up"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_prepared(
    lake: Lake, asked: Callable[[Lake], Publication], problem: str
) -> None:
    """Delta-rs checks neither types nor days: one such file makes a table unreadable, an open entry locks it."""
    lake.publish("p0", {"t": {D1: ["a"]}})
    request = asked(lake)
    before = lake.publisher().log.head().version, lake.rows("t")
    with pytest.raises((PublicationRefused, ValueError), match=problem):
        lake.publisher().publish(request)
    assert (lake.publisher().log.head().version, lake.rows("t")) == before and not lake.head.open


def test_a_schema_that_changes_under_an_open_publication_aborts_it(lake: Lake) -> None:
    """The check of prepare no longer holds when a foreign writer changes the schema before the commit."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    request = lake.request("p2", {"t": {D1: ["b"]}})
    lake.die(CrashPoint.PREPARED, request)
    write_deltalake(lake.storage.uri("t"), rows_table({D2: ["c"]}, 1), mode="append", schema_mode="merge")
    assert lake.publisher().recover() == {"p2": "aborted"}
    assert lake.rows("t") == {D1: ["a"], D2: ["c"]}


def test_staged_files_that_are_gone_are_refused_by_name(lake: Lake) -> None:
    """Main must never name a file that is not there: the whole table would fail for every reader."""
    request = lake.request("p1", {"t": {D1: ["a"], D2: ["b"]}})
    gone = request.tables[0].days[1].adds[0].path
    (lake.root / "t" / gone).unlink()
    moved = lake.publisher().publish(request)
    assert isinstance(moved, Conflict)
    assert moved.days == {"t": frozenset({D2})}
    assert gone in moved.reasons[0]


# ---------------------------------------------------------- retries and recovery


def test_a_retry_of_a_published_id_gives_the_same_answer(lake: Lake) -> None:
    """A process that died after closing asks again, and neither publishes twice nor is asked to stage again."""
    request = lake.request("p1", {"t": {D1: ["a"]}})
    first = lake.publisher().publish(request)
    lake.publish("p2", {"t": {D1: ["b"]}})
    assert lake.publisher().publish(request) == first
    assert lake.rows("t") == {D1: ["b"]}


def test_a_retry_is_recognised_however_many_publications_later(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest commit of the log remembers some outcomes; older ones are found by the transaction in the table."""
    monkeypatch.setattr(head, "_REMEMBERED_OUTCOMES", 1)
    request = lake.request("old", {"raw": {D1: ["x"]}}, kind="append")
    first = lake.publisher().publish(request)
    for number in range(3):
        lake.publisher().publish(Publication(id=f"n{number}", kind="replace", tables=()))
    assert "old" not in lake.head.outcomes
    assert lake.publisher().publish(request) == first
    content = lake.day("raw", D1).content
    assert content is not None and content.rows == 1


@pytest.mark.parametrize("step", [CrashPoint.PREPARED, CrashPoint.TABLE_COMMITTED, CrashPoint.CLOSING])
def test_a_retry_finishes_what_the_dead_process_began(lake: Lake, step: CrashPoint) -> None:
    """At any step that it died at, the same id ends as published once, in both tables."""
    request = lake.request("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    lake.die(step, request)
    assert isinstance(lake.publisher().publish(request), Published)
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["a"]}, {D1: ["b"]})
    assert [row["event"] for row in log_rows(lake.publisher().log, "prepared", "closed")] == ["prepared", "closed"]


def test_an_aborted_id_stays_aborted(lake: Lake) -> None:
    """Its fence is in the tables for good: trying it again says so at once, and a new id can publish."""
    lake.publish("p0", {"t": {D1: ["old"]}})
    request = lake.request("p1", {"t": {D1: ["a"]}})
    lake.die(CrashPoint.PREPARED, request)
    lake.foreign_rows("t", {D1: ["foreign"]})
    assert isinstance(lake.publisher().publish(request), Conflict)
    assert isinstance(lake.publisher().publish(request), Conflict)
    assert isinstance(lake.publish("p2", {"t": {D1: ["b"]}}), Published)


def test_a_process_that_meets_an_open_entry_finishes_it(lake: Lake) -> None:
    """Nothing waits for a dead process, and nothing is published past its lock: readers of a table count as well."""
    request = lake.request("dead", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    lake.die(CrashPoint.PREPARED, request)
    pin = lake.pin({"v": {D1: []}}, {"u": [D1]})
    reading = lake.request("next", {"v": {D1: ["c"]}}, pin, inputs=tuple(pin.inputs.values()))
    assert isinstance(lake.publisher().publish(reading), Published)
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["a"]}, {D1: ["b"]})


def test_an_abort_takes_back_both_tables_and_keeps_foreign_rows(lake: Lake) -> None:
    """All tables or none; days that others changed since are left alone."""
    lake.publish("p0", {"t": {D1: ["t0"], D2: ["t0"]}, "u": {D1: ["u0"]}})
    request = lake.request("p1", {"t": {D1: ["t1"], D2: ["t1"]}, "u": {D1: ["u1"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    lake.foreign_rows("t", {D2: ["foreign"]})
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"p1": "aborted"}
    assert lake.rows("t") == {D1: ["t0"], D2: ["foreign", "t1"]}
    assert lake.rows("u") == {D1: ["foreign", "u0"]}
    assert lake.table("u").transaction_version("p1") == 0, "the fence that a late commit would run into"


def test_an_aborted_append_takes_its_rows_from_among_foreign_ones(lake: Lake) -> None:
    """Its position goes back, so its rows must go too, or the landed file would count twice."""
    one = Position(id="topic", before=None, after=1)
    request = lake.request("a1", {"raw": {D1: ["x"]}, "raw_more": {D1: ["y"]}}, kind="append", positions=(one,))
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    lake.foreign_rows("raw", {D1: ["foreign"]})
    lake.foreign_rows("raw_more", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"a1": "aborted"}
    assert lake.rows("raw") == {D1: ["foreign"]}
    assert lake.table("raw").transaction_version("topic") == 0


def test_an_aborted_append_that_was_rewritten_stays_with_its_position(lake: Lake) -> None:
    """Rows that a foreign writer compacted look like the others: they stay, and stay taken in."""
    one = Position(id="topic", before=None, after=1)
    lake.append("a0", "raw", {D1: ["w"]})
    rows = {"raw": {D1: ["x"], D2: ["z"]}, "raw_more": {D1: ["y"]}}
    request = lake.request("a1", rows, kind="append", positions=(one,))
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    lake.table("raw").optimize.compact()
    lake.foreign_rows("raw_more", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"a1": "aborted"}
    assert lake.rows("raw") == {D1: ["w", "x"], D2: ["z"]}
    assert lake.table("raw").transaction_version("topic") == 1


def test_done_is_only_written_on_a_log_that_shows_no_abort(lake: Lake) -> None:
    """All tables are committed, and a process decides to abort before the entry is closed: then it is aborted."""
    lake.publish("p0", {"t": {D1: ["t0"]}, "u": {D1: ["u0"]}})
    decided: list[str] = []

    def decides(step: CrashPoint, about: str) -> None:
        if step == CrashPoint.CLOSING and not decided:
            decided.append(about)
            log = lake.publisher().log
            head = log.head()
            entry = head.state.open[about].model_copy(update={"aborting": True})
            state = head.state.model_copy(update={"open": {about: entry}})
            rows = [{"event": "aborting", "publication": about}]
            assert log.append(head, rows, lambda file: state)

    request = lake.request("p1", {"t": {D1: ["t1"]}, "u": {D1: ["u1"]}})
    assert isinstance(lake.publisher(decides).publish(request), Conflict)
    assert lake.publisher().log.outcome(lake.publisher().log.head(), "p1") == "aborted"
    assert (lake.rows("t"), lake.rows("u")) == ({D1: ["t0"]}, {D1: ["u0"]})


def test_the_map_names_our_own_commit(lake: Lake) -> None:
    """Pinned readers see what was published, not what a foreign writer added before the entry was closed."""
    request = lake.request("p1", {"t": {D1: ["a"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    lake.foreign_rows("t", {D2: ["foreign"]})
    lake.publisher().recover()
    assert lake.rows("t", lake.head.versions["t"]) == {D1: ["a"]}


def test_a_table_that_disappeared_is_named(lake: Lake) -> None:
    """An open entry on a lost table cannot end by itself: the message says what to put back."""
    request = lake.request("p1", {"t": {D1: ["a"]}})
    lake.die(CrashPoint.PREPARED, request)
    (lake.root / "t" / "_delta_log").rename(lake.root / "t" / "lost")
    with pytest.raises(PublicationRefused, match="t has disappeared"):
        lake.publisher().recover(["t"])


def test_a_lakehouse_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    """The folder, and what to check, instead of an error from the depths."""
    root = tmp_path / "lakehouse"
    root.write_text("a file, not a folder")
    with pytest.raises(LakehouseUnusable, match=str(root)):
        Publisher(Storage(str(root))).pin({"t": [D1]}, {})


def test_a_timeline_with_other_partitions_is_refused(lake: Lake) -> None:
    """A file's rows lack the columns of its partitions: main would read null for them."""
    timeline = stage(lake.storage, "t", "good", {D1: ["a"]})
    write_deltalake(f"{timeline.uri}-bad", rows_table({D1: ["a"]}, 1), partition_by=["day", "extra_0"])
    bad = type(timeline)(lake.storage, "t", "good-bad")
    with pytest.raises(PublicationRefused, match="partitioned by"):
        bad.days()
