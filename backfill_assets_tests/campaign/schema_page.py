"""The schema of plan files in ``docs/reference/``, from the model and the declared tables: ``make pins`` writes it."""

from __future__ import annotations

import json
from pathlib import Path

from backfill_assets.campaign.plan_file import PlanFile
from backfill_assets.examples.catalog import CATALOG

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "backfill-plan.schema.json"


def current_schema() -> str:
    """What it cannot say, such as the measures, is checked when a file is read."""
    found = PlanFile.model_json_schema()
    found["properties"]["target"]["enum"] = sorted(table.name for table in CATALOG.tables)
    return json.dumps({"$schema": "https://json-schema.org/draft/2020-12/schema", **found}, indent=2) + "\n"


if __name__ == "__main__":
    PAGE.write_text(current_schema())
    print(f"{PAGE.name} is the schema of plan files.")
