"""Campaigns in Dagster. Their state is the journal in the lakehouse: a run that dies is retried, and goes on there.

- ``jobs``: carry on, approve, undo; the asset and its sensor.
- ``pages``: what its page shows.
"""
