"""``backfill demo``: the one command that works with Dagster in its own process."""
