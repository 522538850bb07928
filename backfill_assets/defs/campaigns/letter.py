"""The link from the step that compares to the page that people read before they approve."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from backfill_assets.lakehouse.campaign_journal import CampaignStep


def letter_link(step: CampaignStep, facts: Mapping[str, Any], plan: str, served: str) -> Mapping[str, dg.MetadataValue]:
    """Metadata of ``campaign/validated``; none of other steps. ``served`` is where letters are served, or empty."""
    page = str(facts.get("report", ""))
    if step is not CampaignStep.VALIDATE or not page:
        return {}
    if served:
        return {"letter": dg.MetadataValue.url(f"{served}/{plan}")}
    return {"letter": dg.MetadataValue.url(page if "://" in page else Path(page).as_uri())}
