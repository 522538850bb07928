"""Dagster's own instance: launching, daemons, what is under way."""
