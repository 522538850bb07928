"""Timelines as places: rewind days to a moment, go forward from there, compare, and publish what is right."""
