"""An incident of late rows on one day, or as a test has it."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

from backfill_assets.state.diagnosis import Cause
from backfill_assets.upkeep.incidents import Incident

DAY, OPENED_AT = date(2017, 3, 4), datetime(2017, 4, 1, tzinfo=UTC)


def incident(**more: Any) -> Incident:
    about = {
        "id": "late-rows-1",
        "table": "bronze_sales",
        "cause": Cause.LATE,
        "severity": "info",
        "confidence": "0.95",
    }
    return Incident.model_validate({**about, "days": (DAY,), "words": "late", "opened": OPENED_AT, **more})
