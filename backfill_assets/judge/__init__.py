"""Queries over many rows: Ibis expressions that DuckDB evaluates in this process, over files.

Here rows are counted; ``quality`` gives the verdicts. Damaged files raise ``FilesUnreadable``.

- ``engine``: DuckDB over files of days.
- ``measure``: metrics of days, by one query.
- ``by_pandera``: examples of broken rows, and a second opinion.
- ``second_look``: at raw, for days with too many deduplicated or rejected rows: why?
- ``compare``: rows of two sides, matched and compared. ``other_rows``: that all but some are equal.
- ``keys``: keys that arrive again on another day.
- ``changed_keys``: rows by the keys that new raw rows brought.
"""
