"""The publication protocol: staged days become main's, in all tables or in none.

PREPARE reads the log, then the tables, then appends on that version. ``PublicationRefused`` is
for good; after ``CommitRefused`` the entry stays open; ``LakehouseBusy``: too many lost races.

How do days come into main?

- ``promote``: publishes; stages again what moved.
- ``publisher``: PREPARE and its compare-and-swap; recovery.
- ``finish``: FINISH (commit, or fence and put back) and CLOSE.
- ``pinned``: what readers, builds and PREPARE look at.
- ``torn_days``: refuses days made of other inputs.
- ``closed_days``, ``books``: refuse closed ones.
- ``holds``: leases on days for a cut-over.
- ``unreadable``: such tables, with remedies.
- ``crash_points``: where tests kill.

Where does the log keep it?

- ``log``, ``head``: the table; what each commit carries.
- ``rows``, ``files``, ``past``: columns, files and past. ``readers_file``: views.
- ``fold``: entries share files.

Before-images are kept for the rollback window (``settings``).

What changes no row?

- ``compact``: fewer files, same rows; ``small_files``: sizes.
- ``mend``, ``table_past``: lost commits of a table, made again.

Who sends a notice? It is worded by ``campaign/notice``, ``campaign/undo_publication``, ``upkeep/incidents``,
``upkeep/backfill_breaker``.

- ``outbox``, ``due_notice``: kept until delivered.
- ``delivery``, ``side_by_side``: sends what is due.
- ``senders``, ``notice_forms``: mail, Slack, others; how it looks there.
- ``places``: pauses after failures.
- ``endings``: who hears of an end.
- ``lineage_outbox``, ``lineage_event``: OpenLineage.

>>> from backfill_assets.publish.small_files import FULL, tier
>>> tier(FULL - 1), tier(FULL), tier(FULL**2)
(0, 1, 2)
"""
