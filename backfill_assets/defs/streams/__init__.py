"""Streams in Dagster: an asset that runs one, and the sensor that starts it again."""
