"""Dagster's side, made from the declarations. Beside the demo, only this room knows Dagster.

It shows and launches; decisions are made below it.

What is there?

- ``location``: everything, as one code location. ``component``: the same, from YAML.
- ``assets``, ``specs``, ``partitions``: an asset for each table.
- ``checks``, ``log_checks``, ``watchdogs``: of days built, known from logs, read again.
- ``streams``, ``timelines``, ``campaigns``, ``incidents``, ``start_here``: an asset each, some with jobs.
- ``sensors``, ``upkeep``: what runs by itself.

What do runs work with?

- ``resources``: Spark and the lakehouse. ``own_lakehouse``: jobs that refuse another one.
- ``look_back``: earlier days first, later days after.
- ``under_way``: backfills and runs, launched and stopped.
- ``metadata``: what is shown of a day.
- ``dagster_internals``: Dagster's private names.
"""
