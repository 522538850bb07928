"""A table at rest, under engines that write versions of their own and clean up old ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from backfill_assets.lakehouse.delta_log import VersionGone
from backfill_assets.lakehouse.main_table import MainTable, VersionPassed
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets.state.observed import observe
from backfill_assets.state.reading import published_versions, read_published
from backfill_assets.state.view import View
from backfill_assets.upkeep.maintenance import Maintenance
from backfill_assets.upkeep.maintenance_plan import Chore
from backfill_assets.upkeep.reclaim import reclaimable
from backfill_assets_tests.protocol.audit import log_rows
from backfill_assets_tests.protocol.lake import D1, D2, Lake

pytestmark = pytest.mark.protocol


def _commit_nothing(lake: Lake, table: str) -> int:
    """What a nightly VACUUM or an ALTER does: a version that changes no file."""
    lake.table(table).alter.set_table_properties({"delta.checkpointInterval": "20"})
    return lake.table(table).version()


def clean_up(lake: Lake, table: str) -> None:
    """Weeks later: only the newest version can still be read."""
    handle = lake.table(table)
    handle.create_checkpoint()
    for version in range(handle.version()):
        for ending in ("json", "checkpoint.parquet"):
            (lake.root / table / "_delta_log" / f"{version:020d}.{ending}").unlink(missing_ok=True)


def test_a_table_at_rest_stays_readable_when_its_pinned_version_is_cleaned_up(lake: Lake) -> None:
    """Nothing changed, so status, readers, builds and maintenance go on as before, at the newest version."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    newest = _commit_nothing(lake, "t")
    clean_up(lake, "t")
    observed = observe(lake.storage, ["t", "u"])
    assert observed.newest == observed.pinned and observed.versions["t"] == newest
    assert published_versions(lake.storage)["t"] == read_published(lake.storage, "t").version == newest
    assert View.newest(lake.storage).versions["t"] == newest
    assert lake.publisher().pin({}, {"t": [D1]}).inputs["t"].version == newest
    assert reclaimable(lake.publisher(), "t") == []
    request = lake.request(
        "p2", {"u": {D2: ["c"]}}, inputs=tuple(lake.publisher().pin({}, {"t": [D1]}).inputs.values())
    )
    assert isinstance(lake.publisher().publish(request), Published)


def test_maintenance_pins_a_table_at_rest_before_its_version_is_gone(lake: Lake) -> None:
    """One entry of the log, with the whole map; a head that is rebuilt from the rows has it too."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["b"]}})
    newest = _commit_nothing(lake, "t")
    tended = Maintenance(lake.publisher(), ["t", "u"], timeline_days=14)
    tasks = [task for task in tended.plan() if task.chore is Chore.PIN]
    assert [task.table for task in tasks] == ["t"]
    tended.carry_out(tasks, print)
    versions = lake.head.versions
    assert versions["t"] == newest
    (row,) = log_rows(lake.publisher().log, "pinned", columns=["event", "detail"])
    assert json.loads(row["detail"]) == versions
    assert not [task for task in tended.plan() if task.chore is Chore.PIN], "once is enough"


def test_a_version_that_others_changed_is_never_taken_for_the_pinned_one(lake: Lake) -> None:
    """Readers who pin would be given rows that no publication brought. An own publication pins the table again."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.foreign_rows("t", {D2: ["foreign"]})
    tended = Maintenance(lake.publisher(), ["t"], timeline_days=14)
    assert not [task for task in tended.plan() if task.chore is Chore.PIN]
    clean_up(lake, "t")
    with pytest.raises(VersionGone, match="others have changed t since"):
        observe(lake.storage, ["t"])
    with pytest.raises(VersionGone):
        read_published(lake.storage, "t")
    lake.publish("p2", {"t": {D1: ["b"]}})
    assert observe(lake.storage, ["t"]).pinned["t"].keys() == {D1, D2}


def test_no_other_version_is_taken_for_a_commit_that_is_gone(lake: Lake) -> None:
    """An undo that read "before" from the newest version would put the campaign's own rows back."""
    lake.publish("p1", {"t": {D1: ["a"]}})
    _commit_nothing(lake, "t")
    clean_up(lake, "t")
    main = MainTable.open(lake.storage, "t")
    assert main is not None
    with pytest.raises(VersionGone, match="commit of p1 to t"):
        main.commit_version("p1")
    assert lake.publisher().finish("p1") == "done"
    again = lake.publisher().publish(lake.request("p1", {"t": {D1: ["a"]}}))
    assert isinstance(again, Published) and again.versions == {"t": 1}, "the log knows it"


@pytest.mark.parametrize("foreign", [False, True])
def test_an_entry_whose_commit_is_gone_is_closed_on_a_version_with_its_files_or_not_at_all(
    lake: Lake, foreign: bool
) -> None:
    """Left open for longer than the table's log is kept: a map with rows of others would break pinned readers."""
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("p1", {"t": {D1: ["a"]}}))
    newest = _commit_nothing(lake, "t")
    if foreign:
        lake.foreign_rows("t", {D1: ["foreign"]})
    clean_up(lake, "t")
    if foreign:
        with pytest.raises(VersionGone, match="commit of p1 to t"):
            lake.publisher().finish("p1")
    else:
        assert lake.publisher().recover() == {"p1": "done"}
        assert lake.head.versions == {"t": newest}


# ------------------------------------------------------------------ whoever sleeps for longer than the log is kept


def _sleeps(lake: Lake, patch: pytest.MonkeyPatch, opening: int) -> list[int]:
    """Whoever opens t for the ``opening``-th time sleeps, while an engine writes to it and cleans its log up.

    Returns the versions that were opened.
    """
    real: Callable[..., MainTable | None] = MainTable.open
    opened: list[int] = []

    def open_and_sleep(storage: Storage, name: str, *handles: Any) -> MainTable | None:
        found = real(storage, name, *handles)
        if name == "t" and found:
            opened.append(found.version)
            if len(opened) == opening:
                _commit_nothing(lake, "t")
                clean_up(lake, "t")
        return found

    patch.setattr(MainTable, "open", open_and_sleep)
    return opened


def test_a_version_that_was_opened_and_is_cleaned_up_is_named_with_what_to_do(lake: Lake) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    looks: tuple[Callable[[MainTable], object], ...] = (
        lambda main: main.transaction("p1"),
        MainTable.transactions,
        MainTable.state,
        lambda main: main.handle,
    )
    for number, look in enumerate(looks):
        main = MainTable.open(lake.storage, "t")
        assert main is not None
        newest = _commit_nothing(lake, "t")
        clean_up(lake, "t")
        said = f"Version {main.version} of t was cleaned up before it was read; the newest is {newest}"
        with pytest.raises(VersionPassed, match=said) as passed:
            look(main)
        assert "reads the newest version" in str(passed.value.hint), number


@pytest.mark.parametrize("opening", [1, 2, 3])
def test_whoever_sleeps_at_any_opening_of_a_table_publishes_what_it_wanted(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, opening: int
) -> None:
    """In PREPARE, in FINISH and before CLOSE: the table is opened again, once, and the entry ends as the log has it."""
    lake.publish("p1", {"t": {D1: ["a"]}, "u": {D1: ["a"]}})
    request = lake.request("p2", {"t": {D1: ["b"]}, "u": {D1: ["b"]}})
    opened = _sleeps(lake, monkeypatch, opening)
    assert isinstance(lake.publisher().publish(request), Published)
    assert len(opened) >= opening and lake.publisher().publish(request) == Published("p2", lake.head.versions)
    assert lake.rows("t") == lake.rows("u") == {D1: ["b"]}


def test_whoever_sleeps_while_an_entry_is_taken_back_takes_it_back(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    lake.die(CrashPoint.TABLE_COMMITTED, lake.request("p2", {"t": {D1: ["b"]}}))
    _sleeps(lake, monkeypatch, 1)
    assert lake.publisher().abort("p2") == {}
    assert lake.rows("t") == {D1: ["a"]}


def test_a_build_that_sleeps_before_it_looks_looks_again(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.publish("p1", {"t": {D1: ["a"]}})
    before = lake.publisher().pin({"t": [D1]}, {})
    _sleeps(lake, monkeypatch, 1)
    assert lake.publisher().pin({"t": [D1]}, {}).expected == before.expected
