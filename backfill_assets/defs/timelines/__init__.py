"""Timelines with a name in Dagster: days are staged on them, and each of them is shown."""
