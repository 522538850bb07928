"""``make pins`` writes the schema of plan files into ``docs/``, from the model and the tables that are declared."""

from __future__ import annotations

from pathlib import Path

from backfill_assets.examples.catalog import CATALOG
from backfill_assets.plan_file.read import schema_text

PAGE = Path(__file__).parents[2] / "docs" / "backfill-plan.schema.json"


def current_schema() -> str:
    return schema_text(table.name for table in CATALOG.tables)


if __name__ == "__main__":
    PAGE.write_text(current_schema())
    print(f"{PAGE.name} is the schema of plan files.")
