"""What is published, now or at a moment: read from logs alone, never from rows. Nothing here publishes.

Days and statuses:

- ``view``: what every day holds at one moment: main, a log entry, a timeline.
- ``observed``: main now, and the files that days really have. (``external/observe`` looks at tables of others.)
- ``diagnosis``: the one word for what is wrong with a day, and what helps.
- ``input_changes``: what came to its inputs.
- ``status``: missing, fresh, stale, foreign write; what a publication leaves stale.
- ``readers``: names these days to PREPARE.
- ``rolled_back``: how long a rollback holds. ``closed``: closed days, and rows that wait.
- ``edited_logic``: versions edited in place.
- ``damage``: files that are gone, or may go.

For readers and people:

- ``reading``: tables at one pinned map of versions.
- ``history``: publications, newest first.
- ``campaigns``: which are under way.

How far a source was read:

- ``positions``: at any published state of a table.
- ``stream_positions``: offsets of topics in raw.
- ``boundaries``: days by what they were computed from.

>>> from backfill_assets.state.view import parse_time
>>> str(parse_time("2017-06-01T11:20"))
'2017-06-01 11:20:00.999999+00:00'
"""
