"""Files as they are, through all that works with files: CSV, Parquet, and a format of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from backfill_assets.errors import SourceUnreadable
from backfill_assets.lakehouse.storage import Storage
from backfill_assets.landing.csv_files import Csv
from backfill_assets.landing.parquet_files import Parquet
from backfill_assets.model.dataset import Dataset
from backfill_assets.model.landed_format import Format, SourceOfFiles
from backfill_assets.rebuild.outcome import RunInfo
from backfill_assets.stream import live
from backfill_assets.stream.lease import read_stream
from backfill_assets_tests.cli.command import Backfill
from backfill_assets_tests.declared import declare, declared
from backfill_assets_tests.stories.conftest import TypeOn
from backfill_assets_tests.stories.own_format import FixedWidth
from backfill_assets_tests.stories.toll_passages import DAYS, FIRST, NUMBERED, SECOND, passage
from backfill_assets_tests.workshop import Workshop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIELDS = ("gate", "passed_at", "axles", "sent_at")
RAW = ("source_file", "source_line", "content_hash", "rescued", "unparsed_line", "record_kind")
BRONZE = ("gate", "axles", "occurrence", "source_file", "source_line")


def landed_as(dataset: Dataset, format_: Format, files: str = "") -> Dataset:
    """``dataset`` with other files."""
    sources = {
        step.name: SourceOfFiles(**vars(step.source), format=format_, files=files)
        for step in dataset.steps
        if step.source
    }
    return replace(dataset, steps=tuple(replace(step, source=sources.get(step.name)) for step in dataset.steps))


@pytest.fixture
def workshop(tmp_path: Path, spark: SparkSession) -> Workshop:
    return Workshop(tmp_path / "home", lambda: spark)


@pytest.fixture
def backfill(workshop: Workshop, type_on: TypeOn) -> Backfill:
    return type_on(workshop)


def land_csv(workshop: Workshop, day: date, records: Iterable[str], header: str = ";".join(FIELDS)) -> Path:
    file = workshop.settings.landing / "tolls" / f"tolls_{day}.csv"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join([header, *records]))
    return file


def record(second: int, day: date = FIRST, axles: int = 2) -> str:
    return ";".join(passage(second, day, axles)[name] for name in FIELDS)


def read(workshop: Workshop, table: str, names: Iterable[str]) -> list[tuple[object, ...]]:
    rows = workshop.read(table).sort_values(["source_file", "source_line"])
    columns = ([None if pd.isna(value) else value for value in rows[name].tolist()] for name in names)
    return list(zip(*columns, strict=True))


def test_csv_with_the_day_in_its_name(backfill: Backfill, workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tried, taken in, traced, corrected, restored and given back as lines of JSON in folders are."""
    declare(monkeypatch, landed_as(NUMBERED, Csv(delimiter=";"), "tolls_{day}.csv"))
    land_csv(
        workshop,
        FIRST,
        [record(1), record(1), "broken", f'{record(2)};"a\nb"', f"{record(3)};"],
        ";".join((*FIELDS, "note")),
    )
    land_csv(workshop, SECOND, [f"{record(4, SECOND)}", record(5, SECOND, axles=1)])
    (workshop.settings.landing / "tolls" / "readme.csv").write_text("x")
    first, second = (f"tolls/tolls_{day}.csv" for day in DAYS)

    (tried,) = backfill.json("dataset", "check", "tolls", exit_code=1)["files"]
    assert (tried["file"], tried["rows"], tried["quarantined"]) == (first, 5, 3)
    for table in ("raw_tolls", "bronze_tolls", "report_tolls"):
        workshop.build(table, DAYS if table != "report_tolls" else [date(2020, 5, 1)])
    assert any("tolls/readme.csv is no file of the form tolls_{day}.csv" in said for said in workshop.messages)
    assert read(workshop, "bronze_tolls", BRONZE) == [
        ("G1", 2, 1, first, 5),
        ("G1", 2, 1, first, 7),
        ("G1", 2, 1, second, 2),
    ]
    rejected = read(workshop, "quarantine_tolls", ("source_file", "source_line", "unparsed_line"))
    assert rejected == [(first, 2, record(1)), (first, 3, record(1)), (first, 4, "broken"), (second, 3, None)]
    rescued = read(workshop, "raw_tolls", ("source_line", "rescued"))
    assert (5, '{"note":"a\\nb"}') in rescued and (7, '{"note":null}') in rescued

    traced = backfill("trace", f"G1/{FIRST}T08:00:02Z/2/1", "bronze_tolls").stdout
    assert "a\\nb" in traced and f"{first}:5" in traced

    land_csv(workshop, SECOND, [record(4, SECOND), record(5, SECOND, axles=3)])
    done = workshop.builder.refresh(declared().step("raw_tolls"), [SECOND], run=RunInfo("refresh"))
    assert done.rows == {SECOND: (1, 1)} and done.read_otherwise == 0
    workshop.build("bronze_tolls", [SECOND])
    assert read(workshop, "bronze_tolls", ("source_line", "axles"))[2:] == [(2, 2), (3, 3)]

    before = read(workshop, "raw_tolls", RAW)
    for file in (workshop.settings.lakehouse / "raw_tolls").rglob(f"day={FIRST}/*.parquet"):
        file.unlink()
    restored = backfill("raw", "restore", "raw_tolls", FIRST).stdout
    assert first in restored
    assert read(workshop, "raw_tolls", RAW) == before and [kind for *_, kind in before].count("received") == 8


TYPES = {
    "gate": pa.string(),
    "passed_at": pa.timestamp("us"),
    "axles": pa.int16(),
    "sent_at": pa.timestamp("ms", "UTC"),
    "note": pa.string(),
}


def land_parquet(workshop: Workshop, day: date, rows: Sequence[Mapping[str, Any]], name: str = "a") -> Path:
    """Columns of types; moments of ``passed_at`` name no zone."""
    file = workshop.settings.landing / "tolls" / f"day={day}" / f"{name}.parquet"
    file.parent.mkdir(parents=True, exist_ok=True)
    landed = [each for each in TYPES if any(each in row for row in rows)]
    columns = {each: pa.array([row.get(each) for row in rows], pa.string()) for each in landed}
    columns["passed_at"] = pc.utf8_rtrim(columns["passed_at"], "Z")
    pq.write_table(pa.table({each: values.cast(TYPES[each]) for each, values in columns.items()}), file)
    return file


def test_parquet_in_the_folder_of_its_day(
    backfill: Backfill, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tried, taken in, refused, traced, corrected, restored and given back as lines of JSON are; its rows are rows."""
    declare(monkeypatch, landed_as(NUMBERED, Parquet(zone="UTC")))
    land_parquet(workshop, FIRST, [passage(1), {**passage(2), "axles": "1"}, {**passage(3), "note": "x"}])
    first, second = (f"tolls/day={day}/a.parquet" for day in DAYS)
    (tried,) = backfill.json("dataset", "check", "tolls", exit_code=1)["files"]
    assert (tried["file"], tried["rows"], tried["quarantined"]) == (first, 3, 1)
    assert "row 2" in backfill("dataset", "check", "tolls", exit_code=1).stdout

    file = land_parquet(workshop, SECOND, [passage(4, SECOND), {**passage(5, SECOND), "axles": None}])
    whole = file.read_bytes()
    file.write_bytes(whole[:-20])
    with pytest.raises(SourceUnreadable, match=f"{second}: no Parquet, or damaged"):
        workshop.build("raw_tolls", DAYS)
    file.write_bytes(whole)
    for table in ("raw_tolls", "bronze_tolls", "report_tolls"):
        workshop.build(table, DAYS if table != "report_tolls" else [date(2020, 5, 1)])
    assert read(workshop, "bronze_tolls", BRONZE) == [
        ("G1", 2, 1, first, 1),
        ("G1", 2, 1, first, 3),
        ("G1", 2, 1, second, 1),
    ]
    raw = read(workshop, "raw_tolls", ("source_line", "passed_at", "axles", "sent_at", "rescued"))
    assert raw[:3:2] == [
        (1, f"{FIRST}T08:00:01.000000Z", "2", f"{FIRST}T23:59:59.000000Z", '{"note":null}'),
        (3, f"{FIRST}T08:00:03.000000Z", "2", f"{FIRST}T23:59:59.000000Z", '{"note":"x"}'),
    ]
    told = backfill("raw", "quarantine").stdout
    assert f"{first}, row 2" in told and f"{second}, row 2" in told and "axles: is missing" in told
    traced = backfill("trace", f"G1/{FIRST}T08:00:03Z/2/1", "bronze_tolls").stdout
    assert f"{first}, row 3" in traced and '"note": "x"' in traced

    # The source lands the rejected row of the second day again, and corrects the file of the first one.
    land_parquet(workshop, SECOND, [passage(5, SECOND)], "corrected")
    land_parquet(workshop, FIRST, [passage(1), {**passage(3), "note": "x"}, passage(2, axles=3)])
    workshop.build("raw_tolls", [SECOND])
    done = workshop.builder.refresh(declared().step("raw_tolls"), [FIRST], run=RunInfo("refresh"))
    assert done.rows == {FIRST: (1, 1)} and done.read_otherwise == 0
    published = workshop.build("bronze_tolls", DAYS).publications
    assert [row[1] for row in read(workshop, "bronze_tolls", BRONZE)] == [2, 2, 3, 2, 2]
    backfill("rollback", *published, "--yes")
    assert [row[1] for row in read(workshop, "bronze_tolls", BRONZE)] == [2, 2, 2]

    before = read(workshop, "raw_tolls", RAW)
    for part in (workshop.settings.lakehouse / "raw_tolls").rglob(f"day={SECOND}/*.parquet"):
        part.unlink()
    assert second in backfill("raw", "restore", "raw_tolls", SECOND).stdout
    assert read(workshop, "raw_tolls", RAW) == before


def test_a_format_of_ones_own(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its class goes to Spark's workers with its code. A record of another length is quarantined with its text."""
    widths = (("gate", 4), ("passed_at", 20), ("axles", 3), ("sent_at", 20), ("till", 2))
    declare(monkeypatch, landed_as(NUMBERED, FixedWidth(widths)))
    lines = ["".join(f"{passage(second).get(name, 'x'):<{width}}" for name, width in widths) for second in (1, 2)]
    folder = workshop.settings.landing / "tolls" / f"day={FIRST}"
    folder.mkdir(parents=True)
    (folder / "a.txt").write_text("\n".join([*lines, "", "short"]))
    for table in ("raw_tolls", "bronze_tolls"):
        workshop.build(table, [FIRST])
    file = f"tolls/day={FIRST}/a.txt"
    assert read(workshop, "bronze_tolls", BRONZE) == [("G1", 2, 1, file, 1), ("G1", 2, 1, file, 2)]
    assert read(workshop, "quarantine_tolls", ("source_line", "unparsed_line")) == [(4, "short")]
    rescued = read(workshop, "raw_tolls", ("rescued",))
    assert [text and json.loads(str(text)) for (text,) in rescued] == [{"till": "x"}, {"till": "x"}, None]


@pytest.mark.parametrize(
    ("format_", "files"),
    [(Csv(delimiter=";"), "tolls_{day}.csv"), (Csv(delimiter=";"), ""), (Parquet(zone="UTC"), "tolls_{day}.parquet")],
    ids=["csv by name", "csv by folder", "parquet by name"],
)
def test_a_stream_takes_in_files_of_any_format(
    backfill: Backfill, workshop: Workshop, monkeypatch: pytest.MonkeyPatch, format_: Format, files: str
) -> None:
    """Wherever their day is said. Files of other names are left out, and positions are by day."""
    monkeypatch.setattr(live, "stream_settings", lambda *_, **__: {})
    declare(monkeypatch, landed_as(NUMBERED, format_, files))
    for day in DAYS:
        if isinstance(format_, Parquet):
            file = land_parquet(workshop, day, [passage(1, day), {**passage(2, day), "axles": None}])
            file.rename(file.parent.with_name(f"tolls_{day}.parquet"))
            file.parent.rmdir()
            continue
        file = land_csv(workshop, day, [record(1, day), "broken"])
        if not files:
            folder = file.parent / f"day={day}"
            folder.mkdir()
            file.rename(folder / file.name)
    (workshop.settings.landing / "tolls" / "readme.csv").write_text("x")
    stream = ("stream", "raw_tolls", "--from", "landing", "--available-now", "--json")
    backfill(*stream)
    assert len(read(workshop, "raw_tolls", ("source_line",))) == 4
    status = read_stream(Storage(str(workshop.settings.lakehouse)), "raw_tolls")
    assert status and {each.partition: (each.position, each.end) for each in status.positions} == {
        str(day): (1, 1) for day in DAYS
    }
    assert "batch" not in {
        json.loads(line)["event"] for line in backfill(*stream).stdout.splitlines() if line[0] == "{"
    }
