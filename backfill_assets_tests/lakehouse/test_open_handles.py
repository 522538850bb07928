"""Handles that are kept: of one user at a time, of the same log, and none is opened where one is kept."""

from __future__ import annotations

import shutil

import pytest

from backfill_assets.lakehouse import delta_log, open_handles
from backfill_assets.lakehouse.delta_log import open_table
from backfill_assets.publish.publisher import Published
from backfill_assets_tests.protocol.lake import D1, Lake


def test_who_takes_a_handle_has_it_alone_and_it_is_of_the_same_log(lake: Lake) -> None:
    """A table that was dropped and made again has as many versions, and may have other columns."""
    for root in (lake, Lake(lake.root.with_name("other"), lake.time)):
        for number in range(2):
            root.publish(f"{root.root.name}-{number}", {"t": {D1: [root.root.name]}})
    kept = open_handles.take(lake.storage, "t")
    assert kept is not None and open_handles.take(lake.storage, "t") is None
    open_handles.give_back(lake.storage, "t", kept)
    shutil.rmtree(lake.root / "t")
    shutil.copytree(lake.root.with_name("other") / "t", lake.root / "t")
    assert open_handles.take(lake.storage, "t") is None


def test_no_more_are_kept_than_some(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_handles, "_MOST_KEPT", 2)
    lake.publish("p0", {"t": {D1: ["t"]}, "u": {D1: ["u"]}})
    for table in ("t", "u", "_publications"):
        open_handles.give_back(lake.storage, table, open_table(lake.storage, table))
    assert [open_handles.take(lake.storage, table) is None for table in ("t", "u", "_publications")] == [1, 0, 0]


def test_a_publication_opens_no_table_that_the_one_before_it_had_open(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By whatever publisher of the process: each command and each run makes its own."""
    lake.publish("p0", {"t": {D1: ["a"]}})
    request = lake.request("p1", {"t": {D1: ["b"]}})
    monkeypatch.setattr(delta_log, "DeltaTable", None)
    assert isinstance(lake.publisher().publish(request), Published)
    monkeypatch.undo()
    assert lake.rows("t") == {D1: ["b"]}
