"""``SELECT`` over all tables as one closed publication has them. Nothing here writes to a lakehouse.

- ``references``: which tables a query names, by DuckDB's own parser.
- ``moments``: what a schema means: main now, a moment, a timeline.
- ``query``: runs one query on a locked DuckDB; its errors in words.
- ``rows_out``: CSV, Parquet and JSON of what it found.
- ``spark_views``: the same tables as temporary views of Spark SQL.

``publish/readers_file`` keeps a file of views for readers who have only DuckDB.

>>> from backfill_assets.sql.moments import moment_in
>>> moment_in("as of 2017-05-01"), moment_in("with-v2")
('2017-05-01', None)
"""
