"""Newer versions of rows that belong to another day: which keys have some, and the markers that they make necessary."""
