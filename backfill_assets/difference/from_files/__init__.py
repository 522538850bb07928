"""Comparing days from their files with Arrow's buffers, without Spark where there is a rendering."""
