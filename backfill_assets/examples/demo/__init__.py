"""``backfill demo``: lands real data, and builds its days by a native Dagster backfill.

- ``backfill``: launched and followed in this process.
- ``progress``: a line for each change.
- ``accounting``: where every received row went.
"""
