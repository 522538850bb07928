"""``backfill demo``, the one command with Dagster in its own process."""
