"""Campaigns in Dagster."""
