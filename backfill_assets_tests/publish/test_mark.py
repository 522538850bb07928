"""Publications of a stream share one transaction: tables stay small, and the protocol finds what it found before."""

from __future__ import annotations

import pytest

from backfill_assets.lakehouse.records import Publication
from backfill_assets.publish import head
from backfill_assets.publish.crash_points import CrashPoint
from backfill_assets.publish.publisher import Published
from backfill_assets_tests.protocol.lake import D1, D2, Lake, RowsOfTables

pytestmark = pytest.mark.protocol
STREAM = "stream raw"


def _request(lake: Lake, id: str, rows: RowsOfTables) -> Publication:
    return lake.request(id, rows).model_copy(update={"transaction": STREAM})


def test_a_table_has_one_transaction_for_all_publications_of_a_stream(lake: Lake) -> None:
    for number in range(5):
        request = _request(lake, f"s{number}", {"raw": {D1: [f"r{number}"]}})
        assert isinstance(lake.publisher().publish(request), Published)
    assert lake.table("raw").transaction_version(STREAM) is not None
    assert lake.table("raw").transaction_version("s4") is None
    assert lake.rows("raw") == {D1: ["r4"]}


def test_a_retry_long_after_gets_the_outcome_from_the_log(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table knows only the newest publication of the stream, and the head only some outcomes."""
    monkeypatch.setattr(head, "_REMEMBERED_OUTCOMES", 1)
    first = _request(lake, "s0", {"raw": {D1: ["r0"]}})
    lake.publisher().publish(first)
    for number in (1, 2, 3):
        lake.publisher().publish(_request(lake, f"s{number}", {"raw": {D2: [f"r{number}"]}}))
    version = lake.table("raw").version()
    assert isinstance(lake.publisher().publish(first), Published)
    assert lake.table("raw").version() == version


def test_a_slow_process_leaves_the_mark_of_a_later_publication(lake: Lake) -> None:
    """It takes back what others have taken back and closed. A later batch is half way, and must come to its end."""
    lake.publisher().publish(_request(lake, "s0", {"raw": {D1: ["old"]}, "u": {D1: ["old"]}}))
    lake.die(CrashPoint.TABLE_COMMITTED, _request(lake, "s1", {"raw": {D1: ["a"]}, "u": {D1: ["b"]}}))
    lake.foreign_rows("u", {D1: ["foreign"]})
    looks: list[str] = []

    def overtaken(at: CrashPoint, about: str) -> None:
        if at is not CrashPoint.LOG_READ:
            return
        looks.append(about)
        if len(looks) == 2:  # it has decided to abort, and read the log with that decision
            assert lake.publisher().recover() == {"s1": "aborted"}
            lake.die(CrashPoint.TABLE_COMMITTED, _request(lake, "s2", {"raw": {D1: ["later"]}, "u": {D2: ["later"]}}))

    assert lake.publisher(overtaken).finish("s1") == "aborted"
    assert lake.publisher().recover() == {"s2": "done"}
    assert lake.rows("raw") == {D1: ["later"]}
    assert lake.rows("u") == {D1: ["foreign", "old"], D2: ["later"]}
