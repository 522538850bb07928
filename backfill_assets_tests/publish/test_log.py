"""The publication log: each append on exactly the version it was decided on, and reading that stays flat."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake._internal import RemoveAction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction
from pydantic import ValidationError

from backfill_assets.days import TableDay
from backfill_assets.errors import LakehouseUnusable
from backfill_assets.lakehouse import open_handles
from backfill_assets.lakehouse.delta_log import open_table
from backfill_assets.lakehouse.records import DayChange, DayContent, Publication
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import head as publication_head
from backfill_assets.publish import log as publication_log
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.files import ENTRIES
from backfill_assets.publish.head import FORMAT
from backfill_assets.publish.log import LOG_TABLE, Head, HeadState, PublicationLog
from backfill_assets.publish.publisher import Published
from backfill_assets.quality.measures import add_up
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, D3, Lake


def _append(log: PublicationLog, head: Head, name: str) -> bool:
    return log.append(head, [{"event": "note", "publication": name}], lambda file: head.state)


class CountingStorage(Storage):
    """Counts the files that are read through it."""

    reads: list[str] = []  # noqa: RUF012 - one list for the frozen instances of a test

    def read_bytes(self, path: str) -> bytes:
        self.reads.append(path)
        return super().read_bytes(path)


def test_an_append_succeeds_on_the_version_it_was_decided_on_and_no_other(lake: Lake) -> None:
    """Two who read the same log decide differently: the second must look again, not be appended behind the first."""
    log = lake.publisher().log
    log.begin()
    first, second = log.head(), log.head()
    assert _append(log, first, "first")
    assert not _append(log, second, "second")
    assert [row["publication"] for row in log_rows(log)] == ["first"]
    orphans = {file.path for file in lake.storage.files(ENTRIES)} - set(log.files().paths)
    assert not orphans, "the entry that lost is not left behind"


@pytest.mark.parametrize("on_a_disk", [True, False])
def test_looking_begins_no_log_and_of_two_first_entries_one_counts(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, on_a_disk: bool
) -> None:
    """A mistyped path does not become a lakehouse, and a mistyped bucket does not either."""
    monkeypatch.setattr(Storage, "is_folder", on_a_disk)
    log, other = lake.publisher().log, lake.publisher().log
    first, second = log.head(), other.head()
    assert (first.state, log.day_states(first), log_rows(log)) == (HeadState(), {}, [])
    assert not lake.storage.exists(LOG_TABLE)
    assert _append(log, first, "first") and not _append(other, second, "second")
    assert [row["publication"] for row in log_rows(other)] == ["first"]


def test_an_append_whose_answer_was_lost_counts(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object store may take a commit and lose the answer: dropping its file would break the log for everybody."""
    log = lake.publisher().log
    really = PublicationLog._commit

    def lost(self: PublicationLog, head: Head, actions: Sequence[AddAction | RemoveAction], state: HeadState) -> bool:
        assert really(self, head, actions, state)
        return False

    monkeypatch.setattr(PublicationLog, "_commit", lost)
    assert _append(log, log.head(), "only")
    assert [row["publication"] for row in log_rows(log)] == ["only"]


@pytest.mark.protocol
def test_reading_the_head_takes_one_look_however_long_the_log_is(lake: Lake) -> None:
    """Every publication reads the head several times: history must not make it slower."""
    log = PublicationLog(CountingStorage(str(lake.root)))
    counts = {}
    for length in (5, 40):
        while (head := log.head()).version < length:
            assert _append(log, head, "n")
        CountingStorage.reads.clear()
        log.head()
        counts[length] = len(CountingStorage.reads)
    assert counts == {5: 1, 40: 1}


@pytest.mark.protocol
@pytest.mark.parametrize("entries", [100, *(pytest.param(entries, marks=pytest.mark.long) for entries in (500, 2000))])
def test_reading_the_head_stays_flat(lake: Lake, entries: int) -> None:
    """Measured in time as well: delta-rs itself must not replay the history (the log is checkpointed)."""
    log = lake.publisher().log
    seconds = {}
    for length in (20, entries):
        _grow(log, length)
        assert log.head().version == length
        seconds[length] = min(_seconds(log) for _ in range(20))
    print({length: f"{value * 1000:.1f} ms" for length, value in seconds.items()})
    assert seconds[entries] < 10 * seconds[20] + 0.02


def _grow(log: PublicationLog, length: int) -> None:
    """The same handle goes on, which is faster than a new one for each entry."""
    head = log.head()
    while head.version < length:
        assert _append(log, head, "n")
        handle = head.handle
        handle.update_incremental()
        head = Head(handle.version(), head.state, partial(_opened, handle))


def _opened(handle: DeltaTable) -> DeltaTable:
    return handle


def _seconds(log: PublicationLog) -> float:
    import time

    started = time.perf_counter()
    log.head()
    return time.perf_counter() - started


def test_day_states_are_folded_into_an_index(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Day states are read from one index and a bounded number of entries, and folding loses none, however often."""
    monkeypatch.setattr(publication_log, "_INDEX_EVERY", 3)
    lake.publish("first", {"t": {D1: ["a"]}})
    for number in range(8):
        lake.publish(f"p{number}", {"t": {[D2, D3][number % 2]: [f"r{number}"]}})
        assert len(lake.head.since) <= 3
    log = lake.publisher().log
    assert log.head().state.index
    found = {day: state.publication for (_, day), state in log.day_states(log.head()).items()}
    assert found == {D1: "first", D2: "p6", D3: "p7"}


def test_a_file_of_the_log_is_read_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a run asks; and what is new since is seen."""
    lake.publish("first", {"t": {D1: ["a"]}})
    log = lake.publisher().log
    read: list[str] = []
    original = Storage.read_parquet

    def reading(storage: Storage, path: str, columns: list[str] | None = None) -> pa.Table:
        read.append(path)
        return original(storage, path, columns)

    monkeypatch.setattr(Storage, "read_parquet", reading)
    before = log.day_states(log.head())
    assert log.day_states(log.head()) == before and len(read) == len(set(read)) > 0
    lake.publish("second", {"t": {D1: ["b"]}})
    read.clear()
    assert log.day_states(log.head())[TableDay("t", D1)].publication == "second"
    assert len(read) == len(set(read)) < len(log.head().state.since)
    before[TableDay("t", D1)].content.metrics["rows"] = 99  # type: ignore[index,union-attr]
    assert "rows" not in log.day_states(log.head())[TableDay("t", D1)].content.metrics  # type: ignore[union-attr]


def test_an_aborted_publication_changes_no_day_state(lake: Lake) -> None:
    """Its days are what they were, and their last publication too: they are fresh if they were fresh."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    before = lake.publisher().log.day_states(lake.publisher().log.head())
    request = lake.request("p2", {"t": {D1: ["b"]}, "u": {D1: ["c"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, request)
    lake.foreign_rows("u", {D1: ["foreign"]})
    assert lake.publisher().recover() == {"p2": "aborted"}
    head = lake.publisher().log.head()
    assert lake.publisher().log.day_states(head) == before
    assert lake.publisher().log.outcome(head, "p2") == "aborted"
    assert lake.publisher().log.day_states(head, []) == {}


def test_an_old_outcome_is_found_in_history(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head remembers some outcomes; asking for an older one is rare, and must not be answered with nothing."""
    monkeypatch.setattr(publication_head, "_REMEMBERED_OUTCOMES", 1)
    for id in ("old", "newer", "newest"):
        lake.publisher().publish(Publication(id=id, kind="replace", tables=()))
    log = lake.publisher().log
    head = log.head()
    assert "old" not in head.state.outcomes
    assert (log.outcome(head, "old"), log.outcome(head, "nobody")) == ("done", None)


def test_maintenance_of_the_log_by_others_is_survived(lake: Lake) -> None:
    """An engine optimises the log: the commit carries no head, and nothing is forgotten."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    request = lake.request("p2", {"t": {D1: ["b"]}})
    lake.die(CrashPoint.PREPARED, request)
    lake.table(LOG_TABLE).optimize.compact()
    assert set(lake.head.open) == {"p2"}
    assert isinstance(lake.publisher().publish(request), Published)
    assert lake.rows("t") == {D1: ["b"]}


def test_prepared_entries_are_found_by_id_and_by_time(lake: Lake) -> None:
    """A rollback needs the before-image whenever it was; reclaiming needs all of the window, aborted ones as well."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.clock += timedelta(days=2)
    lake.publish("p2", {"t": {D1: ["b"]}})
    log = lake.publisher().log
    found = log.find_prepared("p1")
    assert found is not None
    assert found[0].publication.id == "p1"
    assert log.find_prepared("p9") is None
    assert [p.publication.id for p in log.prepared_since(lake.clock - timedelta(days=1))] == ["p2"]


def test_versions_are_those_of_the_entry_in_the_process_that_closed_it_and_in_any_other(lake: Lake) -> None:
    """The process that closed a publication does not look for it in the log's files; what it answers is the same."""
    publisher = lake.publisher()
    for id, day in (("p1", D1), ("p2", D2)):
        published = publisher.publish(lake.request(id, {"t": {day: ["a"]}, "u": {day: ["b"]}}))
        assert isinstance(published, Published)
        found = lake.publisher().log.versions_of(id)
        assert publisher.log.versions_of(id) == found == published.versions
    lake.foreign_rows("t", {D3: ["x"]})
    first = publisher.log.versions_of("p1")
    assert first == lake.publisher().log.versions_of("p1")
    assert first != publisher.log.versions_of("p2")


def test_contents_add_up() -> None:
    """An appended day is known without reading it: counts, checksums and metrics are sums."""
    first = DayContent(rows=2, checksum="18446744073709551617", metrics={"a": 1, "b": "x", "total_eur": "1.10"})
    second = DayContent(rows=3, checksum="5", code_version="v2", metrics={"a": 4, "total_eur": "20.05"})
    assert first.plus(second) == DayContent(
        rows=5,
        checksum="18446744073709551622",
        code_version="v2",
        metrics={"a": 5, "b": "x", "total_eur": "21.15"},
    )
    third = DayContent(rows=1, checksum="1", code_version="v3")
    assert second.plus(third).plus(second).code_version == "v2; v3", "the rows are of both"


def test_what_was_not_measured_of_one_part_is_unknown_of_both() -> None:
    """A total that is declared between two deliveries is not that of the second one; no rows add nothing."""
    first = DayContent(rows=2, checksum="1", metrics={"c": None}, staged_ms=None)
    second = DayContent(rows=3, checksum="5", metrics={"c": 7, "total_eur": 12}, staged_ms=900)
    both = first.plus(second)
    assert (both.metrics, both.staged_ms) == ({"c": None, "total_eur": None}, None)
    assert both.figure("total_eur") is None
    assert DayContent(rows=0, checksum="0").plus(second).figure("total_eur") == 12
    assert second.plus(DayContent(rows=0, checksum="0")).figure("total_eur") == 12
    assert DayContent(rows=0, checksum="0").figure("total_eur") == 0


def test_a_day_that_no_one_took_rows_back_from_had_no_deletions() -> None:
    """They are measured only where there are some: a part without the metric has none."""
    first = DayContent(rows=2, checksum="1", metrics={"received": 2})
    second = DayContent(rows=1, checksum="5", metrics={"received": 0, "deleted": 1, "deleted_hash_sum": -7})
    expected = {"received": 2, "deleted": 1, "deleted_hash_sum": -7}
    assert first.plus(second).metrics == second.plus(first).metrics == expected
    assert first.plus(first).metrics == {"received": 4}
    assert add_up([first.metrics, second.metrics]) == expected


def test_what_a_day_holds_is_validated_when_it_is_read_as_json() -> None:
    """It is a plain record in memory; in the log unknown fields and wrong types are refused as everywhere."""
    day = DayChange(day=D1, content=DayContent(rows=2, checksum="5"))
    assert DayChange.model_validate_json(day.model_dump_json()) == day
    for wrong in ({"rows": "many", "checksum": "5"}, {"rows": 2, "checksum": "5", "colour": "red"}):
        with pytest.raises(ValidationError):
            DayChange.model_validate({"day": D1, "content": wrong})


def _raise_formats(lake: Lake, **formats: object) -> None:
    """A newer version wrote the newest entry, with what it needs and a field that is not known here."""
    log = lake.publisher().log
    assert _append(log, log.head(), "by a newer version")
    newest = lake.root / "_publications" / "_delta_log" / f"{log.head().version:020d}.json"
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    for action in actions:
        if "commitInfo" in action:
            head = json.loads(action["commitInfo"]["backfill.head"]) | formats
            action["commitInfo"]["backfill.head"] = json.dumps(head)
    newest.write_text("".join(json.dumps(action) + "\n" for action in actions))


def test_an_older_process_learns_that_it_cannot_use_a_newer_log(lake: Lake) -> None:
    """In words, with what to do: not by a field that it does not know, which it would drop from the head."""
    lake.publish("p0", {"t": {D1: ["a"]}})
    _raise_formats(lake, format=FORMAT + 1, unknown={})
    with pytest.raises(LakehouseUnusable, match=rf"(?s)its log has format {FORMAT + 1}.*newer version"):
        lake.publisher().log.head()
    with pytest.raises(LakehouseUnusable, match="A newer version"):
        lake.publish("p1", {"t": {D1: ["b"]}})
    assert lake.rows("t") == {D1: ["a"]}


def test_a_log_that_is_trimmed_while_it_is_opened_is_opened_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that was listed is gone when it is read; one that stays away is damage, and told as it is."""
    lake.publish("p0", {"t": {D1: ["a"]}})
    tries: list[int] = []

    def opens(*given: object, **more: object) -> DeltaTable:
        tries.append(1)
        if len(tries) < fails:
            raise DeltaError("Kernel error: File not found: 00000000000000000997.json")
        return open_table(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(publication_log, "open_table", opens)
    monkeypatch.setattr(open_handles, "take", lambda *_: None)
    fails = 3
    assert PublicationLog(lake.storage).files().paths
    tries.clear()
    fails = 99
    with pytest.raises(DeltaError, match="997"):
        PublicationLog(lake.storage).files()
    assert len(tries) == publication_log._MOST_OPENINGS


def test_an_append_into_a_gap_of_a_trimmed_log_does_not_count(lake: Lake) -> None:
    """A process slept for days on an old version, and the next one was trimmed meanwhile: its number is free."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    log = lake.publisher().log
    slept = log.head()
    lake.publish("p2", {"t": {D1: ["b"]}})
    newest = log.head()
    newest.handle.create_checkpoint()
    for version in range(newest.version):
        lake.storage.delete(f"{LOG_TABLE}/_delta_log/{version:020d}.json")
    assert not log.append(slept, [{"event": "waiting"}], lambda file: slept.state)
    assert log.head().state == newest.state
    assert log.append(newest, [{"event": "waiting"}], lambda file: newest.state)
