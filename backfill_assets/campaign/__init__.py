"""A plan carried out in nine steps, approved, undone. The log says what is published; the journal
keeps what only people and clocks know. Any process goes on with it.

``CampaignStopped``: a limit is exceeded, or inputs are not as published.

How does it go on?

- ``run``: one plan in one process. ``course``: the next move.
- ``decisions``: start, approve, give up. ``options``: what was asked for.
- ``steps``: each of the nine. ``ends``: done or stopped.
- ``staging``: waves. ``breaker``: limits.
- ``review``, ``cutover``: one publication, as approved.
- ``read_again``: inputs before, days after. ``notice``: what people are told.

How does it stand?

- ``look``: journal and log together. ``published``: what the log says of it.
- ``standing``: in a word, and what a person may do then.
- ``approval``: who may, and what is covered.
- ``later_decisions``: rollbacks and switches that a yes would go over.

How is it undone?

- ``undoable``: whether it may be. ``undo_days``: what becomes of each day.
- ``rollback``: one publication, by files.
- ``undo``, ``undo_look``: a campaign, without losing rows that came since.
- ``undo_publication``: what the log says of it.

Where does a plan come from?

- ``plan_file``: a reviewed file. ``timeline_plan``: a timeline.

>>> from backfill_assets.campaign.breaker import BreakerInput, judge
>>> from backfill_assets.limits import Limits
>>> [each.sentence for each in judge(Limits.parse("gates=20%"), BreakerInput(tried=10, held_back=3))]
['3 of 10 days are held back by their gates, and at most 20 % may.']
"""
