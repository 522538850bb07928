"""The workshop of :mod:`backfill_assets.testing`, without Spark: what it lands, types and reads."""

from __future__ import annotations

import gzip
import json
import os
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.testing import Workshop
from backfill_assets_tests.declared import EXAMPLES
from backfill_assets_tests.small_lakehouse import SmallLakehouse

pytestmark = pytest.mark.data


@pytest.fixture
def empty(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / "home", EXAMPLES)


def test_rows_are_landed_as_a_source_would_write_them(empty: Workshop) -> None:
    """Each call is a file of its own; one that is there is never replaced."""
    moment = datetime(2016, 2, 15, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    row = {"moment": moment, "day": date(2016, 2, 15), "amount": Decimal("1.50"), "sound": True, "gap": None}
    file = empty.land("sales", "2016-02-15", [row, {"parts": [{"a": "1"}], "text": "ü"}])
    assert file.relative_to(empty.settings.landing) == Path("sales/2016-02-15/1.jsonl.gz")
    first, second = map(json.loads, gzip.decompress(file.read_bytes()).decode().splitlines())
    assert first == {"moment": "2016-02-15T00:30:00Z", "day": "2016-02-15", "amount": "1.50", "sound": "true"}
    assert second == {"parts": [{"a": "1"}], "text": "ü"}
    assert empty.land("sales", "2016-02-15", []).name == "2.jsonl.gz"
    with pytest.raises(FileExistsError):
        empty.land("sales", "2016-02-15", [], name="2")


def test_commands_work_on_it_alone(empty: Workshop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Whatever a person has set for the project, and leaves it as it was."""
    monkeypatch.setenv("BACKFILL_LAKEHOUSE", str(tmp_path / "theirs"))
    monkeypatch.setenv("SPARK_REMOTE", "sc://nosuch:15002")
    empty.land("sales", "2017-03-01", [])
    assert "landed and not taken in: 1 file" in empty.backfill("status", "raw_sales")
    assert empty.settings.lakehouse == empty.home / "lakehouse" and empty.settings.spark_remote is None
    assert os.environ["SPARK_REMOTE"] == "sc://nosuch:15002"


def test_a_command_that_ends_otherwise_than_it_should_fails_the_test(empty: Workshop) -> None:
    """With what was typed, and all that was printed."""
    with pytest.raises(AssertionError, match=r"(?s)backfill show nosuch 2017-03-01: exit code 1.*no table 'nosuch'"):
        empty.backfill("show", "nosuch", date(2017, 3, 1))
    with pytest.raises(AssertionError, match="exit code 0"):
        empty.backfill("status", exit_code=1)


def test_published_rows_are_read_by_day(empty: Workshop) -> None:
    first, second = date(2017, 3, 1), date(2017, 3, 2)
    lakehouse = SmallLakehouse(empty.settings.lakehouse)
    lakehouse.publish("b", {"raw_sales": {second: [2]}})
    lakehouse.publish("a", {"raw_sales": {first: [1]}})
    assert [(row["day"], row["id"]) for row in empty.rows("raw_sales")] == [(first, 1), (second, 2)]
    assert [row["id"] for row in empty.rows("raw_sales", "2017-03-02")] == [2]
