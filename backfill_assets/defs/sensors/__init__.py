"""Sensors of the lakehouse; those of streams and campaigns are beside their jobs. After a crash the next tick goes
on.

- ``landed_files``: launches backfills of landed days, from names alone.
- ``external_tables``: observes days of others that moved.
- ``repairs``: launches repairs, and keeps incidents.
- ``shows_what_is``: makes Dagster show what is published; launches nothing.
"""
