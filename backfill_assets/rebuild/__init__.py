"""Builds days: stages them, judges them, publishes them. Main is pinned before inputs are read; PREPARE compares it.

On main, a failed gate raises ``DaysFailed``, and nothing is published; ``walk`` and ``follow`` leave such days out.

How is a step built?

- ``builder``: the way in. ``main_build`` publishes.
- ``walk``: step after step, on any place.
- ``place``: main, a campaign, a timeline, an undo. (``publish/places`` are of notices.)
- ``step_look``, ``decide``: what is to be done.
- ``step_build``: days are kept, taken, grown or computed.
- ``stage``: computes, writes, judges. ``only_rows``: some rows of a day. ``verdicts``: of reused days.
- ``lake``, ``environment``, ``outcome``: what with, where, with what result.

How does raw change?

- ``raw_change``: the one way into raw, whoever found the rows.
- ``ingest``: files that arrived.
- ``refresh``, ``changed_files``: files that sources changed.
- ``restore``, ``lost_rows``: rows whose files are gone.
- ``erase``: rows of a person.

How do days follow raw?

- ``refining``, ``refine_tasks``: from raw to bronze and quarantine.
- ``follow``: behind a stream, one publication for all steps.
- ``growing``, ``grow``, ``grown_content``: days with just what they gained.
- ``replay``: quarantined rows, judged again.

Does it come out the same?

- ``reproduce``: a publication, computed again.
- ``same_rows``: a version edited in place.

Whose table is it?

- ``adopt``, ``give_back``: taken over, given back.

>>> from backfill_assets.rebuild.decide import days_so_far
>>> days_so_far("bronze_sales: read again", done=30, total=90, seconds=2)
'bronze_sales: read again, 30/90 days, ETA 4 s'
"""
