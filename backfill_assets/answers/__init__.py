"""Answers to what people ask, made once for commands, pages, letters and ``--json``. ``report`` shows them.

Most only read; ``release()``, ``replay()`` and ``mend()`` do what was asked.

About tables and days:

- ``status``: which are fresh, stale or missing. ``day``: one of them.
- ``signs``: what speaks about days beside the logs.
- ``history``: publications, and what a rollback puts back. ``trace``: one row's way.
- ``books``: closes and reopens days.
- ``raw``, ``held_back``: what was rejected, lost, or kept by a stream's gate.
- ``erasure``: rows of a person.
- ``reproduction``: days computed again. ``thresholds``: how often each would have broken.
- ``sql``: rows of a query.

About work:

- ``plan``, ``run``, ``campaign``: what would be done, and how far it is.
- ``timelines``: beside main. ``adoption``: tables taken over, given back.
- ``to_do``: what needs a person now. ``incidents``: what went wrong.

About the machine:

- ``machine``, ``mended_machine``: ``backfill doctor``, and ``--fix``.
- ``maintenance``: chores, mended logs, notices. ``metrics``: figures for monitoring.

>>> from backfill_assets.answers.incidents import duration
>>> str(duration("4h"))
'4:00:00'
"""
