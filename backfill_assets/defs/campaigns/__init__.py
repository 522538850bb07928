"""Campaigns in Dagster. The journal in the lakehouse is their state; a run that dies is retried, and goes on there.

- ``jobs``: carry on, approve, undo; the asset and its sensor.
- ``pages``: what its page shows.
"""
