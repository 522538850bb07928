"""When Dagster acts: assets, checks, sensors, schedules and jobs, made from the declarations."""
