from __future__ import annotations

import pytest

from backfill_assets.spark.session import driver_memory


@pytest.mark.parametrize(("gib", "share"), [(2, "1g"), (8, "2g"), (24, "6g"), (256, "8g")])
def test_the_driver_takes_a_quarter_within_bounds(gib: int, share: str) -> None:
    """Two runs, Dagster and the page cache have to fit beside it on the smallest and the largest machine."""
    assert driver_memory(gib * 1024**3) == share
