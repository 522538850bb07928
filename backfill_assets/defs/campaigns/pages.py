"""Links to pages of the UI: pages of assets and runs, and launchpads that open with everything filled in. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg
import yaml

from backfill_assets.defs.campaigns.jobs import APPROVE_JOB, PLAN_JOB, PLANNED, UNDO_JOB
from backfill_assets.defs.private_dagster import PARTITION_NAME_TAG, USER_TAG
from backfill_assets.ui_addresses import asset_page, launchpad_page, run_page

LOCATION = "backfill_assets"
EFFECT_TAG = "backfill/effect"
"""What a run that a person launches will do, in a sentence: the launchpad shows it beside the button."""
WITHOUT_HELD_BACK_TAG = "backfill/without_held_back"
"""On a run of `cut_over` that a person launches: ``true`` publishes the good days although others are held back."""


@dataclass(frozen=True)
class Pages:
    """``location`` names the code location."""

    location: str = LOCATION

    @classmethod
    def of(cls, run: dg.DagsterRun) -> Pages:
        origin = run.remote_job_origin
        return cls(origin.location_name if origin else LOCATION)

    def asset(self, key: dg.AssetKey, partition: str = "") -> str:
        return asset_page("/".join(key.path), partition, tab="overview")

    def run(self, run_id: str) -> str:
        return run_page(run_id)

    def start(self, plan: str) -> str:
        """The launchpad that starts a plan."""
        config = {"ops": {op_name(PLANNED): {"config": {"plan": plan, "start": True}}}}
        return self._launchpad(PLAN_JOB, {"config": yaml.safe_dump(config, sort_keys=False)})

    def approve(self, campaign: str, effect: str, *, user: str = "", without_held_back: bool = False) -> str:
        """The launchpad whose button approves the campaign and publishes it, for ``user`` if one is named."""
        tags = {PARTITION_NAME_TAG: campaign, EFFECT_TAG: effect}
        tags |= {USER_TAG: user} if user else {}
        return self._launchpad(
            APPROVE_JOB, _tags(tags | ({WITHOUT_HELD_BACK_TAG: "true"} if without_held_back else {}))
        )

    def undo(self, campaign: str, effect: str) -> str:
        """The launchpad whose button puts back what the campaign has published."""
        return self._launchpad(UNDO_JOB, _tags({PARTITION_NAME_TAG: campaign, EFFECT_TAG: effect}))

    def _launchpad(self, job: str, filled: Mapping[str, str]) -> str:
        return launchpad_page(self.location, job, filled)


def op_name(key: dg.AssetKey) -> str:
    """The name of an asset in run configuration."""
    return "__".join(key.path)


def _tags(tags: Mapping[str, str]) -> dict[str, str]:
    parts: dict[str, str] = {}
    for number, (key, value) in enumerate(tags.items()):
        parts |= {f"tags[{number}][key]": key, f"tags[{number}][value]": value}
    return parts
