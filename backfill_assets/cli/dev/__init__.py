"""``backfill dev``, and the process handling that the demo shares with it."""
