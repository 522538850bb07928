"""What keeps a table of others from being taken over: each with the command that removes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from backfill_assets.days import Cadence
from backfill_assets.errors import InvalidRequest, PublicationRefused
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.lakehouse.table_to_adopt import TableToAdopt, fit_problems, read_table_to_adopt

pytestmark = pytest.mark.protocol
DAY, TODAY = date(2025, 1, 6), date(2025, 6, 1)
DECLARED = {"id": "long", "amount": "decimal(18,2)", "note": "string", "day": "date"}
LIST = {"type": "array", "elementType": "long", "containsNull": True}


def schema(columns: Mapping[str, Any], required: tuple[str, ...] = ()) -> dict[str, Any]:
    fields = [{"name": name, "type": kind, "nullable": name not in required} for name, kind in columns.items()]
    return {"type": "struct", "fields": fields}


FITS: Mapping[str, tuple[Mapping[str, Any], tuple[str, ...], str]] = {
    "as declared": (DECLARED, (), ""),
    "in another order": (dict(reversed(DECLARED.items())), (), ""),
    "without a column that may be null": ({k: v for k, v in DECLARED.items() if k != "note"}, (), ""),
    "without one that may not": ({k: v for k, v in DECLARED.items() if k != "amount"}, (), "amount is not there"),
    "with another type": ({**DECLARED, "id": "integer"}, (), "column id is integer and is declared as long"),
    "with a column of its own": ({**DECLARED, "theirs": "string"}, (), "column theirs is not declared"),
    "in another case": ({**{k: v for k, v in DECLARED.items() if k != "id"}, "ID": "long"}, (), "ID is declared as id"),
    "with one that must not be null": (DECLARED, ("id",), "COLUMN id DROP NOT NULL"),
}


@pytest.mark.parametrize("how", FITS)
def test_a_schema_fits_or_the_column_is_named(how: str) -> None:
    """What is taken over is what a rebuilt day can be published into: no column is lost by it, and none refuses it."""
    columns, required, said = FITS[how]
    problems = fit_problems(schema(columns, required), schema(DECLARED), ["id", "amount", "day"])
    assert len(problems) == bool(said) and all(said in each for each in problems), problems


def test_parts_that_may_be_null_are_part_of_the_type() -> None:
    strict = {**LIST, "containsNull": False}
    (problem,) = fit_problems(schema({"ids": strict}), schema({"ids": LIST}), [])
    assert "in what its parts may be" in problem


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    write(tmp_path / "theirs", DAY)
    return tmp_path / "theirs"


def write(folder: Path, day: date | None, **how: Any) -> None:
    rows = pa.table({"id": pa.array([1], pa.int64()), "day": pa.array([day], pa.date32())})
    write_deltalake(str(folder), rows, mode="append", **{"partition_by": ["day"], **how})


def look(folder: Path, cadence: Cadence = Cadence.DAILY) -> TableToAdopt:
    declared = schema({"id": "long", "day": "date"})
    return read_table_to_adopt(
        Storage(str(folder.parent)), folder.name, declared=declared, required=["id"], cadence=cadence, today=TODAY
    )


def test_a_table_of_days_can_be_taken_over(theirs: Path) -> None:
    """And who wrote to it is known, whatever engine it was."""
    found = look(theirs)
    assert found.problems == () and list(found.files) == [DAY]
    (commit,) = found.written_since(datetime(2020, 1, 1, tzinfo=UTC))
    assert "delta-rs" in commit.engine and commit.operation == "WRITE"
    assert found.written_since(datetime.max.replace(tzinfo=UTC)) == []


def test_a_change_of_properties_is_no_writer(theirs: Path) -> None:
    """As a person makes it who removes what stood in the way."""
    DeltaTable(str(theirs)).alter.set_table_properties({"delta.logRetentionDuration": "interval 9 days"})
    assert [each.version for each in look(theirs).commits] == [0]


def test_what_is_no_table_and_what_has_no_days_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no _delta_log"):
        look(tmp_path / "nothing")
    rows = pa.table({name: pa.array([1], pa.int64()) for name in ("id", "shop")}).append_column(
        "day", pa.array([DAY], pa.date32())
    )
    write_deltalake(str(tmp_path / "by id"), rows, partition_by=["day", "id"])
    write_deltalake(str(tmp_path / "whole"), rows)
    assert "partitioned by day, id" in look(tmp_path / "by id").problems[0]
    assert "partitioned by nothing" in look(tmp_path / "whole").problems[0]


def test_days_that_are_none_of_the_table_are_named(theirs: Path) -> None:
    write(theirs, None)
    write(theirs, TODAY)
    write(theirs, date(2025, 1, 8))
    said = "; ".join(look(theirs, Cadence.WEEKLY).problems)
    assert "day IS NULL" in said and f"{TODAY} has not ended" in said
    assert "2025-01-08 is not the first day of a week" in said


def test_files_that_are_gone_elsewhere_or_without_statistics_are_named(theirs: Path) -> None:
    """A publication names files by where they lie in the folder of their table."""
    next(theirs.glob("day=*/*.parquet")).unlink()
    assert "gone, for example theirs/day=2025-01-06/" in "; ".join(look(theirs).problems)
    _edit_adds(theirs, lambda add: {**add, "stats": "{}"})
    assert "without statistics" in "; ".join(look(theirs).problems)
    _edit_adds(theirs, lambda add: {**add, "path": f"/other/{add['path']}"})
    assert "as in a shallow clone" in "; ".join(look(theirs).problems)


def test_deletion_vectors_are_refused_with_the_commands_that_purge_them(theirs: Path) -> None:
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    _edit_adds(theirs, lambda add: {**add, "deletionVector": vector})
    said = "; ".join(look(theirs).problems)
    assert "REORG TABLE ... APPLY (PURGE)" in said and "'delta.enableDeletionVectors' = 'false'" in said
    with pytest.raises(PublicationRefused, match="cannot be adopted as fact_x"):
        look(theirs).without_problems("fact_x")


def test_a_deletion_vector_that_was_purged_is_the_past(theirs: Path) -> None:
    """The log still has it: what counts is what is active."""
    log = theirs / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020d}.json").read_text().splitlines()]
    add = next(each["add"] for each in actions if "add" in each)
    vector = {"storageType": "u", "pathOrInlineDv": "x", "offset": 1, "sizeInBytes": 1, "cardinality": 1}
    remove = {"remove": {"path": add["path"], "dataChange": True}}
    deleted = [remove, {"add": {**add, "deletionVector": vector}}]
    purged = [{"remove": {**remove["remove"], "deletionVector": vector}}, {"add": {**add, "path": f"{add['path']}.2"}}]
    (log / f"{1:020d}.json").write_text("\n".join(map(json.dumps, deleted)))
    assert "has a deletion vector" in look(theirs).problems[0]
    (log / f"{2:020d}.json").write_text("\n".join(map(json.dumps, purged)))
    (theirs / add["path"]).rename(theirs / f"{add['path']}.2")
    assert look(theirs).problems == ()


FEATURES = {
    "rowTracking": "DROP FEATURE rowTracking",
    "typeWidening": "DROP FEATURE typeWidening",
    "clustering": "DROP FEATURE clustering",
    "domainMetadata": "DROP FEATURE domainMetadata",
    "identityColumns": "DROP FEATURE identityColumns",
}
PROPERTIES = {
    "delta.enableDeletionVectors=true": "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')",
    "delta.columnMapping.mode=name": "create the table again without it",
    "delta.constraints.positive=id > 0": "DROP CONSTRAINT positive",
    "delta.appendOnly=true": "SET it to false",
}


@pytest.mark.parametrize("what", [*FEATURES, *PROPERTIES])
def test_what_delta_rs_does_not_write_is_refused_with_what_removes_it(theirs: Path, what: str) -> None:
    """Also of a table that delta-rs cannot open."""
    log = theirs / "_delta_log" / f"{1:020d}.json"
    if what in FEATURES:
        action: dict[str, Any] = {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": [],
                "writerFeatures": [what],
            }
        }
    else:
        name, _, value = what.partition("=")
        first = [json.loads(line) for line in (theirs / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
        metadata = next(each["metaData"] for each in first if "metaData" in each)
        action = {"metaData": {**metadata, "configuration": {name: value}}}
    log.write_text(json.dumps(action))
    assert {**FEATURES, **PROPERTIES}[what] in "; ".join(look(theirs).problems)


def _edit_adds(folder: Path, change: Any) -> None:
    log = folder / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    edited = [{"add": change(each["add"])} if "add" in each else each for each in actions]
    log.write_text("\n".join(map(json.dumps, edited)))
