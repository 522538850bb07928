"""The reader of Delta logs: full actions, from commits and checkpoints alike, and a refusal where it would guess."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction

from backfill_assets import clock
from backfill_assets.errors import PublicationRefused
from backfill_assets.lakehouse import delta_log
from backfill_assets.lakehouse.delta_log import (
    AddedFile,
    VersionGone,
    commits_back,
    hinted_checkpoint,
    read_log,
    read_log_and_transactions,
    read_transactions,
    removed_files,
    version_by_names,
)
from backfill_assets.lakehouse.main_table import MainTable
from backfill_assets.lakehouse.open_handles import Known
from backfill_assets.lakehouse.storage import Storage
from backfill_assets_tests.protocol.lake import D1, D2, Lake

pytestmark = pytest.mark.protocol


@pytest.fixture(scope="module")
def five_publications(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    found = Lake(tmp_path_factory.mktemp("five") / "lakehouse")
    with clock.use(found.time):
        for number in range(5):
            found.publish(f"p{number}", {"t": {D1: [f"a{number}"]}})
        yield found


@pytest.fixture
def lake(five_publications: Lake, tmp_path: Path) -> Iterator[Lake]:
    found = five_publications.copy(tmp_path / "lakehouse")
    with clock.use(found.time):
        yield found


def _log_file(lake: Lake, version: int, ending: str = "json") -> str:
    return str(lake.root / "t" / "_delta_log" / f"{version:020d}.{ending}")


def test_checkpoints_and_commits_give_the_same_state(lake: Lake) -> None:
    """Statistics, sizes and tombstones included: an undo writes these actions into the table again."""
    from_commits, removed = lake.state("t"), removed_files(lake.storage, "t", lake.table("t").version())
    lake.table("t").create_checkpoint()
    for version in range(from_commits.version):
        (lake.root / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    from_checkpoint = lake.state("t")
    assert from_checkpoint.active == from_commits.active
    assert removed_files(lake.storage, "t", from_checkpoint.version) == removed
    assert len(removed) == 4


def test_a_long_log_is_not_listed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The hint names the checkpoint, and commits have numbers: a month of a stream has 300,000 of them."""
    lake.table("t").create_checkpoint()
    lake.publish("p5", {"t": {D1: ["a5"]}})
    listed = lake.state("t").active
    monkeypatch.setattr(Storage, "files", None)
    assert lake.state("t").active == listed
    assert len(read_transactions(lake.storage, "t", lake.table("t").version())) == 6


def test_the_newest_version_is_found_by_the_names_of_commits(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are; with a checkpoint, without a list. Where its hint cannot say, None."""

    def version() -> int | None:
        return version_by_names(lake.storage, "t", hinted_checkpoint(lake.storage, "t"))

    assert version() == lake.table("t").version(), "there is no checkpoint yet"
    lake.table("t").create_checkpoint()
    for number in range(5, 8):
        lake.publish(f"p{number}", {"t": {D1: [f"a{number}"]}})
    newest = lake.table("t").version()
    with monkeypatch.context() as patched:
        patched.setattr(Storage, "files", None)
        assert version() == newest
    for commits in (1, 2, 20):
        monkeypatch.setattr(delta_log, "_LOOKED_FOR_AT_ONCE", commits)
        assert version() == newest
    Path(_log_file(lake, newest - 3)).unlink()
    assert version() is None, "cleaned up since: what else is gone is not known"
    assert MainTable.open(lake.storage, "t") == MainTable(lake.storage, "t", newest)


def test_a_table_that_moved_refuses_a_commit_on_an_older_version(lake: Lake) -> None:
    """Its handle is opened late, at the version that was decided on, and not at the newest."""
    lake.table("t").create_checkpoint()
    earlier = MainTable.open(lake.storage, "t")
    lake.publish("p5", {"t": {D1: ["a5"]}})
    assert earlier is not None and earlier.handle.version() == earlier.version
    assert not earlier.commit("late", {}, target={}, active={}, schema=None, at=lake.clock)


def test_a_handle_that_came_along_commits_on_no_version_but_the_one_decided_on(lake: Lake) -> None:
    """It is of whoever opened the table last."""
    known = Known()
    earlier = MainTable.open(lake.storage, "t", known)
    assert earlier is not None and earlier.handle.version() == earlier.version
    lake.publish("p5", {"t": {D1: ["a5"]}})
    newer = MainTable.open(lake.storage, "t", known)
    assert newer is not None and newer.handle is earlier.handle
    assert not earlier.commit("late", {}, target={}, active={}, schema=None, at=lake.clock)
    assert lake.table("t").version() == newer.version
    assert newer.commit("next", {}, target={}, active={}, schema=None, at=lake.clock)


def test_what_is_known_of_a_log_comes_along_and_is_of_no_other_log(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only commits since are read; a table that came in its place, or a commit that was written over, is read whole."""
    newest = lake.table("t").version()
    whole = {version: read_log_and_transactions(lake.storage, "t", version) for version in range(1, newest + 1)}
    with monkeypatch.context() as patched:
        patched.setattr(delta_log, "actions_up_to", None)
        for earlier, version in itertools.combinations_with_replacement(whole, 2):
            known = whole[earlier]
            assert read_log_and_transactions(lake.storage, "t", version, known=known) == whole[version]
    assert read_log_and_transactions(lake.storage, "t", 1, known=whole[newest]) == whole[1]
    other = Path(_log_file(lake, 1))
    other.rename(other.with_suffix(".was"))
    other.write_bytes(Path(_log_file(lake, 2)).read_bytes())
    assert read_log_and_transactions(lake.storage, "t", 1, known=whole[1]).transactions == {"p1": 1}


def test_a_hint_of_what_is_gone_is_passed_over(lake: Lake) -> None:
    """An engine cleaned up the checkpoint that it names, or a copy of the log is older than its hint."""
    lake.table("t").create_checkpoint()
    version = lake.table("t").version()
    before = read_log(lake.storage, "t", version)
    Path(_log_file(lake, version, "checkpoint.parquet")).unlink()
    assert read_log(lake.storage, "t", version) == before
    (lake.root / "t" / "_delta_log" / "_last_checkpoint").write_text("half a hi")
    assert read_log(lake.storage, "t", version) == before


def test_every_version_can_be_read(lake: Lake) -> None:
    """The last closed map is rarely the newest version."""
    lake.table("t").create_checkpoint()
    for number in (5, 6):
        lake.publish(f"p{number}", {"t": {D1: [f"a{number}"]}})
    for version in (1, 4, 5, 6, 7):
        uris = DeltaTable(lake.storage.uri("t"), version=version).file_uris()
        assert read_log(lake.storage, "t", version).active.keys() == {uri.split("/t/")[1] for uri in uris}


def test_a_gap_in_the_log_is_refused(lake: Lake) -> None:
    """Half a history would be taken for the truth: files that were removed would count again."""
    (lake.root / "t" / "_delta_log" / f"{1:020d}.json").unlink()
    with pytest.raises(VersionGone, match="Version 5 of t"):
        read_log(lake.storage, "t", 5)


def test_a_log_that_is_cleaned_up_between_its_names_and_its_files_is_read_by_its_names_now(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the checkpoint that has taken their place; a version before it is gone, and says so."""
    before, real = read_log(lake.storage, "t", 5), delta_log._files_up_to

    def list_and_sleep(storage: Storage, table: str, version: int) -> tuple[list[str], list[str]]:
        found = real(storage, table, version)
        if Path(_log_file(lake, 0)).exists():
            lake.table("t").create_checkpoint()
            (lake.root / "t" / "_delta_log" / "_last_checkpoint").unlink()
            for number in range(5):
                Path(_log_file(lake, number)).unlink()
        return found

    monkeypatch.setattr(delta_log, "_files_up_to", list_and_sleep)
    assert read_log(lake.storage, "t", 5) == before
    monkeypatch.undo()
    Path(_log_file(lake, 5, "checkpoint.parquet")).unlink()
    with pytest.raises(VersionGone, match="Version 5 of t"):
        read_log(lake.storage, "t", 5)


def test_an_incomplete_checkpoint_is_passed_over(lake: Lake) -> None:
    """Checkpoints of several parts are written part by part: half of one is not a state."""
    lake.table("t").create_checkpoint()
    single = _log_file(lake, 5, "checkpoint.parquet")
    Path(single).rename(single.replace(".checkpoint.", f".checkpoint.{1:010d}.{2:010d}."))
    assert len(read_log(lake.storage, "t", 5).active) == 1
    Path(_log_file(lake, 0)).unlink()
    with pytest.raises(VersionGone):
        read_log(lake.storage, "t", 5)


def test_files_without_statistics_are_distinguished_from_empty_ones(lake: Lake) -> None:
    """Foreign files may carry none: a count of zero would be written back by an undo, and believed by Spark."""
    commit = Path(_log_file(lake, 5))
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for action in actions:
        if "add" in action:
            del action["add"]["stats"]
    commit.write_text("\n".join(json.dumps(action) for action in actions))
    (file,) = lake.state("t").active.values()
    assert file.stats == "{}"
    with pytest.raises(PublicationRefused, match="no statistics"):
        assert file.rows


def test_deletion_vectors_are_refused(lake: Lake) -> None:
    """An add action of delta-rs carries none: the deleted rows would come back with the next undo."""
    commit = Path(_log_file(lake, 5))
    commit.write_text(commit.read_text().replace('"dataChange":true', '"dataChange":true,"deletionVector":{"a":1}'))
    with pytest.raises(PublicationRefused, match="deletion vector"):
        read_log(lake.storage, "t", 5)


def test_deletion_vectors_in_a_checkpoint_are_refused_too(lake: Lake) -> None:
    """Of a checkpoint only some columns are read."""
    lake.table("t").create_checkpoint()
    (checkpoint,) = (lake.root / "t" / "_delta_log").glob("*.checkpoint.parquet")
    actions = pq.read_table(checkpoint)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": None, "sizeInBytes": 1, "cardinality": 1}
    adds = [add and {**add, "deletionVector": vector} for add in actions["add"].to_pylist()]
    place = actions.column_names.index("add")
    pq.write_table(actions.set_column(place, "add", pa.array(adds, actions["add"].type)), checkpoint)
    with pytest.raises(PublicationRefused, match="deletion vector"):
        read_log(lake.storage, "t", 5)


def test_transactions_are_read_at_once_as_each_of_them_is_looked_up(lake: Lake) -> None:
    """From a checkpoint and the commits after it; the newest of an id counts."""
    for number, versions in enumerate(({"x": 1, "y": 2}, {"x": 3}, {"z": 4})):
        table = lake.table("t")
        properties = CommitProperties(app_transactions=[Transaction(id, version) for id, version in versions.items()])
        table.create_write_transaction([], "append", table.schema(), ["day"], commit_properties=properties)
        if number == 1:
            lake.table("t").create_checkpoint()
    main = MainTable.open(lake.storage, "t")
    assert main is not None
    found = main.transactions()
    assert found == {id: main.transaction(id) for id in found} and found.keys() > {"x", "y", "z"}
    assert (found["x"], found["y"], found["z"]) == (3, 2, 4)
    with pytest.raises(VersionGone):
        read_transactions(lake.storage, "t", main.version + 1)


def test_commits_are_numbered_as_the_log_numbers_them(lake: Lake) -> None:
    """Delta-rs's history() numbers from the handle's version down, also when newer commits are among them."""
    main = MainTable.open(lake.storage, "t")
    assert main is not None
    lake.publish("p5", {"t": {D2: ["b"]}})
    assert main.commit_version("p4") == 5
    assert [version for version, _ in commits_back(lake.storage, "t", 6)] == [6, 5, 4, 3, 2, 1, 0]


def test_paths_are_seen_from_the_table_that_takes_them_over() -> None:
    file = AddedFile("day=2017-03-01/x.parquet", str(D1), 10, 20, '{"numRecords":3}')
    assert file.below("_timelines/one").path == "_timelines/one/day=2017-03-01/x.parquet"
    assert AddedFile.from_json(file.to_json()) == file
    assert file.rows == 3
