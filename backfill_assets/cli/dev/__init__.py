"""``backfill dev``, and the process handling that the demo shares with it.

- ``dev``: code server, daemon, UI, letters and Spark, each restarted alone.
- ``sessions``: processes ended with all that they started.
- ``only_daemon``: one Dagster daemon for a home. ``dagster_home``: its folder.
- ``dev_log``: what a person needs of the log.
- ``letters``: serves letters about differences. ``metrics_server``: figures for Prometheus.
"""
