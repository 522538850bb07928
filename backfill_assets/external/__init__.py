"""Tables that others write: when a day moved, and rows at a pinned version. Nothing is written to them.

Main has no files of such a table, only records of its days. A version that is gone raises ``LakehouseUnusable``.

- ``observe``: publishes records of days that moved. (``state/observed`` looks at our own tables.)
- ``delta_table``, ``parquet_folder``: the two kinds.
- ``table_version``, ``files``: one version, and what its days are made of.
- ``types_there``: whether columns can be read as declared.
- ``rows``: read by Spark.
- ``gate``: holds back days of broken rows, since none is quarantined. ``quality/gates`` judge days built here.
- ``declaration_trial``: tries a dataset on the newest day.

>>> from backfill_assets.external.types_there import is_readable_as
>>> is_readable_as("int", "bigint"), is_readable_as("bigint", "int")
(True, False)
"""
