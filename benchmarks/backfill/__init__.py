"""How fast a backfill is beside what people write by hand and beside other tools: ``python -m benchmarks.backfill``."""
