"""The asset ``incidents``: what is wrong now, what was tried, and what was settled. No run materializes it."""

# No postponed annotations here: Dagster resolves resources from the annotations themselves.
from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg

from backfill_assets.answers.incidents import incident_answer, incidents_answer
from backfill_assets.defs.metadata import digest
from backfill_assets.defs.resources import Backfill
from backfill_assets.defs.specs import BEGIN
from backfill_assets.report.markdown import markdown
from backfill_assets.upkeep.incidents import Incident, IncidentBook

ASSET = "incidents"
_SHOWN_CLOSED, _MOST_PAGES = timedelta(days=7), 12


def incidents_spec() -> dg.AssetSpec:
    return dg.AssetSpec(
        ASSET,
        group_name=BEGIN,
        kinds={"deltalake"},
        description="What went wrong with published days: the cause, what the sensor `repairs` tried, what its check "
        "says now, and what needs a person. *Metadata* below has each open incident, and those of the last week.",
    )


def show_incidents(context: dg.SensorEvaluationContext, backfill: Backfill, seen: Any) -> tuple[str, Any]:
    """Keeps the page as the incidents are, for the sensor; ``seen`` is the digest of what it said."""
    book = IncidentBook(backfill.storage)
    metadata = incidents_metadata(book.open(), book.closed_since(datetime.now(UTC) - _SHOWN_CLOSED))
    if (now := digest(metadata)) != seen:
        context.instance.report_runless_asset_event(dg.AssetMaterialization(ASSET, metadata=metadata))
    return "", now


def incidents_metadata(open_: list[Incident], closed: list[Incident]) -> dict[str, dg.MetadataValue]:
    """Numbers that the UI plots, a table of all, and each open one with its history. Pure."""
    pages = sorted(open_, key=lambda each: each.state != "person")[:_MOST_PAGES]
    return {
        "open": dg.MetadataValue.int(len(open_)),
        "for people": dg.MetadataValue.int(sum(each.state == "person" for each in open_)),
        "closed in a week": dg.MetadataValue.int(len(closed)),
        "all": dg.MetadataValue.md(markdown(incidents_answer(open_, closed))),
        **{each.id: dg.MetadataValue.md(markdown(incident_answer(each))) for each in pages},
    }
