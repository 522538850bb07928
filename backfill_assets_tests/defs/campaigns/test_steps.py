"""Which runs of a campaign's cut-over approve it."""

from __future__ import annotations

from dagster._core.storage.tags import RETRY_NUMBER_TAG

from backfill_assets.defs.campaigns.steps import MOVE_TAG, WITHOUT_HELD_BACK_TAG, approves


def test_only_a_run_that_a_person_has_launched_approves() -> None:
    """An approval that was withdrawn does not come back by a retry, nor by a run that the sensor had asked for."""
    assert approves({}) and approves({WITHOUT_HELD_BACK_TAG: "true"})
    assert not approves({MOVE_TAG: "campaign-x-cut_over-r0a1"})
    assert not approves({RETRY_NUMBER_TAG: "1"})
