"""What would be rebuilt, why, from what and at what cost. A plan is frozen: its id is a hash of its content.

Logs are read first, and the plan is made from that without an engine. A moved basis is refused.

- ``keep``: looks, makes a plan and keeps it; looks again.
- ``make``: the plan, from what was asked and the ``situation``.
- ``records``: what a plan says.
- ``scope``: which days, and why. ``only_rows``: of which only some rows.
- ``inputs``: what is read and not rebuilt.
- ``basis``: what it was computed from, and what moved.
- ``preflight``: what blocks it or calls for care.
- ``closed``: closed days, left out.
- ``cost``: rows, time, money.
- ``waves``: canary, pilot, half, all.
- ``expectations``: the language of expected changes.
- ``code_change``: both logics, side by side.
- ``table_run``: what a run in the foreground builds; no plan is kept.

>>> from backfill_assets.plan.expectations import Expectation
>>> asked = Expectation.parse("revenue_eur < 2% a day")
>>> asked.subject, str(asked.limit), asked.each_day
('revenue_eur', '2', True)
"""
