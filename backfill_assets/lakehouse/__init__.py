"""Where tables are files. Damage raises ``LakehouseUnusable``; what would break a table, ``PublicationRefused``.

Files are synced before a commit names them, and a commit before anything relies on it.

What holds the bytes?

- ``storage``, ``object_store``: files below one root, on disk or S3.
- ``durable``: syncs. ``disk``: words for a full disk.
- ``document``: JSON by name, or by numbers written once.
- ``retry``: loops around commits.

What does a Delta log say?

- ``delta_log``, ``log_folder``: files, versions, and gaps.
- ``torn_commit``: after a loss of power.
- ``foreign_commits``: who wrote past the protocol.
- ``catalog_managed``, ``table_to_adopt``: what cannot be written or adopted.

What does a table hold?

- ``main_table``: main; sets its retention. ``open_handles``: kept for the next who opens it.
- ``timelines``: staged days of one table, in its folder.
- ``named_timelines``: days beside main that people keep; the room ``timeline`` works on them.
- ``records``: publications and days, as logged.
- ``fingerprints``: physical, logical, of inputs.

How do rows get in and out?

- ``rows``: by Spark. ``arrow_dataset``: without.
- ``day_files``, ``written_files``: Parquet by day; its add actions.
- ``lost_file``: which day an engine's error is about.

What else is kept?

- ``plans``: by id. ``campaign_journal``, ``campaign_reports``: all that a campaign remembers.
- ``kept_logic``: what the fingerprint of a logic stands for.

>>> from backfill_assets.lakehouse.fingerprints import physical
>>> physical(["b.parquet", "a.parquet"]) == physical(["a.parquet", "b.parquet"])
True
"""
