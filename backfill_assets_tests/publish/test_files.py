"""Bounds of the log's files: a file that has what is asked for is never passed over, and others stay closed."""

from __future__ import annotations

import itertools
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake._internal import RemoveAction
from deltalake.transaction import AddAction
from hypothesis import given, settings
from hypothesis import strategies as st

from backfill_assets.lakehouse.storage import Storage
from backfill_assets.publish import files as module
from backfill_assets.publish.files import LOG_TABLE, LogFiles, equal, statistics
from backfill_assets.publish.rows import ARROW_SCHEMA, DELTA_SCHEMA
from backfill_assets_tests.strategies.how_many import drawn

pytestmark = pytest.mark.protocol
AT = datetime(2017, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def _log(root: Path, *files: list[dict[str, object]], without_statistics: bool = False) -> LogFiles:
    storage = Storage(str(root))
    actions: list[AddAction | RemoveAction] = []
    for number, rows in enumerate(files):
        table = pa.Table.from_pylist([{"sequence": number, **row} for row in rows], schema=ARROW_SCHEMA)
        size = storage.write_parquet(f"{LOG_TABLE}/{number:020d}-x.parquet", table)
        stats = '{"numRecords": 1}' if without_statistics else statistics(table)
        actions.append(AddAction(f"{number:020d}-x.parquet", size, {}, 0, True, stats))
    handle = DeltaTable.create(storage.uri(LOG_TABLE), DELTA_SCHEMA)
    handle.create_write_transaction(actions, "append", DELTA_SCHEMA)
    return LogFiles.of(storage, DeltaTable(storage.uri(LOG_TABLE)))


def _numbers(files: LogFiles) -> list[int]:
    return sorted(int(path.rsplit("/", 1)[1][:20]) for path in files.paths)


def test_only_files_that_may_have_the_value_are_left(tmp_path: Path) -> None:
    log = _log(
        tmp_path,
        [{"publication": "b", "day": "2017-03-01", "at": AT}],
        [{"publication": "d", "day": "2017-03-02", "at": AT + timedelta(days=1)}, {"publication": "f"}],
        [{"at": AT + timedelta(days=2)}],
    )
    assert _numbers(log.holding("publication", ["b"])) == [0]
    assert _numbers(log.holding("publication", ["e", "x"])) == [1], "between its bounds, so perhaps in it"
    assert _numbers(log.holding("publication", [])) == []
    assert _numbers(log.between("at", low=AT)) == [0, 1, 2], "moments are kept in milliseconds, rounded outwards"
    assert _numbers(log.between("at", low=AT + timedelta(milliseconds=2))) == [1, 2]
    assert _numbers(log.between("day", "2017-03-02", "2017-03-09")) == [1]
    assert equal(log.read(["publication"]), publication="f").num_rows == 1


def test_files_without_statistics_may_have_anything(tmp_path: Path) -> None:
    """Logs that were begun before there were any are read in full, until they are folded."""
    log = _log(tmp_path, [{"publication": "b"}], [{"publication": "d"}], without_statistics=True)
    assert _numbers(log.holding("publication", ["x"])) == _numbers(log.between("at", low=AT)) == [0, 1]


@pytest.mark.parametrize("without_statistics", [False, True])
def test_a_part_has_no_older_entry_than_the_parts_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without_statistics: bool
) -> None:
    """Entries that were folded by kind, or gathered over hours, lie in files that overlap; an entry may be in two."""
    monkeypatch.setattr(module, "_BATCH", 2)
    entries = ([0, 9], [5, 6], [1, 8], [2, 7], [3], [6, 4])
    files = [
        [{"sequence": number, "publication": f"in {place}"} for number in numbers]
        for place, numbers in enumerate(entries)
    ]
    log = _log(tmp_path, *files, without_statistics=without_statistics)
    parts = [part["sequence"].to_pylist() for part in log.newest_first(["publication"])]
    assert sorted(itertools.chain(*parts)) == sorted(itertools.chain(*entries))
    for newer, older in itertools.pairwise([part for part in parts if part]):
        assert min(newer) > max(older)
    assert without_statistics or len([part for part in parts if part]) > 1, "a search can stop early"


_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=80)


@settings(max_examples=drawn(60), deadline=None)
@given(st.lists(_TEXTS, min_size=1, max_size=4))
def test_shortened_bounds_hold_every_value(texts: list[str]) -> None:
    texts = [*texts, "z" * 31 + "zz"]
    table = pa.Table.from_pylist([{"detail": text} for text in texts], schema=ARROW_SCHEMA)
    found = json.loads(statistics(table))
    for text in texts:
        assert found["minValues"]["detail"].encode() <= text.encode() <= found["maxValues"]["detail"].encode()
