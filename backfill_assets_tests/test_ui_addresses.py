"""Addresses as the UI has them: each was opened in a browser once, and `make first-hour` opens them again."""

from __future__ import annotations

from backfill_assets.ui_addresses import (
    asset_page,
    backfill_page,
    launchpad_page,
    lineage_page,
    schedule_page,
)


def test_an_asset_and_each_of_its_partitions_has_a_page() -> None:
    assert asset_page("campaign") == "/assets/campaign"
    assert asset_page("campaign", "campaign-1") == "/assets/campaign?view=partitions&partition=campaign-1"


def test_what_is_named_is_escaped() -> None:
    """A name from outside leads to a page of the UI and nowhere else."""
    assert asset_page("a b?c", "d&e#f") == "/assets/a%20b%3Fc?view=partitions&partition=d%26e%23f"
    assert backfill_page("a#b") == "/runs/b/a%23b"
    assert schedule_page("my location", "every_day") == "/locations/my%20location/schedules/every_day"
    assert lineage_page('key:"fact"+') == "/asset-groups~key%3A%22fact%22%2B/"


def test_a_launchpad_is_filled_in() -> None:
    found = launchpad_page("my location", "approve", {"tags[0][key]": "dagster/partition", "tags[0][value]": "a b"})
    assert found.startswith("/locations/my%20location/jobs/approve/playground/setup?")
    assert found.endswith("tags%5B0%5D%5Bkey%5D=dagster%2Fpartition&tags%5B0%5D%5Bvalue%5D=a%20b")
