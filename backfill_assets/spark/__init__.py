"""The engine: the same code runs on embedded Spark and on a Connect server.

What keeps Spark from starting raises ``LakehouseUnusable``; a server that goes away, ``SparkLost``.

What does Spark start with?

- ``session``: ``open_session()``, embedded or, with ``SPARK_REMOTE``, of a server.
- ``java``, ``jars``: checked, and fetched at set-up.
- ``archive_classes``, ``archived_day``, ``class_archive``: Java's archive of classes, for quick starts.

Which server?

- ``connect_server``: one that ends with its starter.
- ``service``: one that outlives its command, with a cluster if asked.
- ``submitted``: the script that it runs.

How does work get into workers?

- ``workers``: Python tasks, and their errors.
- ``worker_queries``, ``partition_query``: declared queries, as DuckDB's SQL.
- ``computed``: the tables of a version, lazily.
"""
