"""Dagster's side: assets, checks, sensors, schedules and jobs, made from the declarations."""
