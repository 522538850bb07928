"""How rows come in: from landed files to raw rows, with tokens for personal values.

The landing zone is only read; but ``blank_lines`` writes, for rows that a person erases.

Files that are gone, damaged or changed raise ``SourceUnreadable``; a wrong token key, ``LakehouseUnusable``.

What has landed?

- ``zone``: files by arrival day. ``data_days``: a chain's first and last day.
- ``control_totals``: what a source says it sent.

How is a file read?

- ``records``: in any format: ``json_lines``; ``csv_files``, of ``csv_lines``; ``parquet_files``, of ``parquet_rows``
  and the ``parquet_texts`` of their values.
- ``compressed``, ``line_reader``: its bytes and lines.
- ``odd_lines``: lines that are no plain object.

How does it become raw?

- ``raw_query``: from lines to raw rows.
- ``landing_files``, ``rows_of_lines``: run on files, on events.
- ``landed_rows``: computed at each use, to compare.
- ``token_key``: the key of tokens.

What was rejected or taken back?

- ``quarantine``: reasons, and what came again. ``release``: a person lets a day through.
- ``deletions``: rows that a source took back.
- ``raw_rollback``: refuses unsound ones.

Where did a row go?

- ``trace``, ``trace_outcomes``: through all tables.
- ``landed_lines``, ``typed_texts``: its line, its values.

Is a declaration right?

- ``declaration_trial``, ``version_trial``: tried before anything is staged.

>>> from backfill_assets.landing.landed_lines import format_place
>>> format_place("sales/2017-03-01/a.jsonl.gz", 7)
'sales/2017-03-01/a.jsonl.gz:7'
"""
