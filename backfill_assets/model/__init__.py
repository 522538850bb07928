"""What can be declared of a dataset, and what follows from that alone: no table is read.

A wrong declaration raises ``InvalidRequest``, with all mistakes at once.

How is a dataset declared?

- ``landed_dataset``, ``derived_dataset``, ``external_table``: what people write.
- ``declared_tables``, ``contract``, ``checks``, ``rules``: its tables, columns, and gates.
- ``refinement``: how raw becomes bronze.
- ``declaration``: the steps and versions it all becomes.
- ``dataset``, ``declared_wrong``: finds mistakes, and words them.
- ``catalog``, ``left_out``: all datasets, without wrong ones.

Which rows, days, versions are meant?

- ``graph``: what is computed from what.
- ``selection``: ``+TABLE``. ``row_filter``: ``store_id in (3, 7)``.
- ``current_versions``: which version counts.
- ``lineage``: origins of columns.

On which day is a row?

- ``arrival_days``: when its file came. ``event_day``: in which time zone.
- ``placement``, ``lateness``: which days are possible.
- ``newer_versions``: supersession markers.

What becomes of landed rows?

- ``landed``, ``record_parts``: contracts, of records. ``landed_format``, ``event_format``: interfaces of formats.
- ``landed_values``, ``landed_lists``, ``landed_structures``, ``structure_values``: text and value.
- ``bronze_query``: raw to typed rows, and rejects.
- ``deletion``, ``standing_query``: rows taken back, and those that stand.
- ``lone_rows``: rows that equal no other.
- ``drift``: undeclared fields.

How are rows measured?

- ``measure``, ``of_duckdb``, ``xxh64``: metrics and hashes.
- ``doubles``, ``maps``: as they compare.
- ``canonical``: hashes by Spark, as a check.

What is a version's logic?

- ``logic``, ``source_code``, ``syntax``: its fingerprint.
- ``clocks``: time and chance, which no transform may ask.

>>> from backfill_assets.model.arrival_days import arrival_day
>>> arrival_day("sales/2017-03-01/a.csv")
datetime.date(2017, 3, 1)
"""
