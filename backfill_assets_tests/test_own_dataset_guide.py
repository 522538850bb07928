"""The guide to a dataset of one's own shows the code that is there, whole pieces of it."""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path

import pytest

from backfill_assets.landing.zone import LandingZone
from backfill_assets_tests.declared import source_named
from backfill_assets_tests.stories.landing_snippet import land_rows

ROOT = Path(__file__).parents[1]
GUIDE = ROOT / "docs" / "your-own-data.md"
SHOWN = (
    "backfill_assets/examples/datasets/sea_temperatures.py",
    "backfill_assets_tests/stories/test_sea_temperatures.py",
    "backfill_assets_tests/stories/own_format.py",
    "backfill_assets_tests/quality/few_zeros.py",
    "backfill_assets/init_project/test_datasets.txt",
    "backfill_assets_tests/defs/company_asset.py",
    "backfill_assets_tests/stories/orders_of_others.py",
)
EXCERPTS = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)


def test_every_excerpt_is_in_a_file() -> None:
    """A person who copies from the page gets what works."""
    shown = [(ROOT / path).read_text() for path in SHOWN]
    assert [excerpt for excerpt in EXCERPTS if not any(excerpt in text for text in shown)] == []


def test_nothing_of_the_declaration_is_left_out() -> None:
    """All of the file but its first line is explained: nothing has to be guessed."""
    _, _, declared = (ROOT / SHOWN[0]).read_text().partition("\n")
    for excerpt in EXCERPTS:
        declared = declared.replace(excerpt, "")
    assert declared.strip() == ""
    assert all(path in GUIDE.read_text() for path in SHOWN)


def test_what_lands_files_gives_text_and_never_replaces_a_file(tmp_path: Path) -> None:
    """Local time becomes UTC, digits stay, what is missing is left out; a landed file is final."""
    local = datetime(2016, 2, 15, 1, 30, tzinfo=timezone(timedelta(hours=1)))
    exact = datetime(2016, 2, 15, 0, 30, 0, 250_000, tzinfo=UTC)
    row = {"sensor_id": "B01", "measured_at": local, "sent_at": exact, "celsius": Decimal("4.50"), "note": None}
    land_rows(tmp_path, "sea_temperatures", date(2016, 2, 15), "one", [row, {}])
    with pytest.raises(FileExistsError):
        land_rows(tmp_path, "sea_temperatures", date(2016, 2, 15), "one", [])
    (paths,) = LandingZone(tmp_path).paths(source_named("sea_temperatures")).values()
    assert paths == ("sea_temperatures/2016-02-15/one.jsonl.gz",)
    first, second = gzip.decompress((tmp_path / paths[0]).read_bytes()).decode().splitlines()
    assert json.loads(first) == {
        "sensor_id": "B01",
        "measured_at": "2016-02-15T00:30:00Z",
        "sent_at": "2016-02-15T00:30:00.250000Z",
        "celsius": "4.50",
    }
    assert second == "{}"
