"""Days beside main that people keep: rewound to a moment, computed again, compared, and brought into main.

``lakehouse/named_timelines`` keeps them; ``lakehouse/timelines`` are folders of days that a build stages. Days whose
files are gone raise ``PublicationRefused``.

- ``rewind``: makes one, of days as they were; files are named, none is copied.
- ``build``: computes days on it: asked for, or all of its own.
- ``view``: its days over its base, and which are stale.
- ``arrivals``: rows that came since.
- ``of_version``: what main would hold by another version.
- ``switch``: publishes that, days and version together.
- ``moments_listed``: moments worth going to.
- ``opened``: for any engine to read.

``campaign/timeline_plan`` brings one into main by a plan.

>>> from backfill_assets.timeline.of_version import name_of_version
>>> name_of_version("fact_sales_transactions", "v1")
'standby-fact-sales-transactions-v1'
"""
