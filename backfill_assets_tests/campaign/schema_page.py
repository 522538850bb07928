"""The schema of plan files in ``docs/reference/``, from the model and the declared tables: ``make pins`` writes it."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.campaign.plan_file import schema_text
from backfill_assets.examples.catalog import CATALOG

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "backfill-plan.schema.json"


def current_schema() -> str:
    return schema_text(table.name for table in CATALOG.tables)


if __name__ == "__main__":
    PAGE.write_text(current_schema())
    print(f"{PAGE.name} is the schema of plan files.")
