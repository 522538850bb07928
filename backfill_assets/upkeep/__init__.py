"""What looks after published days: finds what is wrong, repairs it, tells people; and maintains the tables.

What is wrong? (The cause, and what helps: ``state/diagnosis``.)

- ``watch``: the watchdogs read days again. ``read_days``: what they hold.
- ``trouble``: stale days, from logs and watchdogs. ``findings``: each wrong day.
- ``failed_checks``: what a check said. ``roots``: which findings are one incident.
- ``stream_holds``: days that a stream's gate holds. ``beside_streams``: days left to a stream.

What is done? A decision is written before it is carried out: a process may die at any line.

- ``heal``: one look and all that follows: the way in.
- ``repair``, ``bounds``: backfills to launch, and how many. ``wanted``: by day and cause.
- ``for_people``: what no repair puts right.
- ``incidents``, ``incident_course``, ``effect``: documents, course, facts.
- ``arrivals_due``: landed files that nothing ingests.
- ``backfill_breaker``: whether a native backfill goes on; ``campaign/breaker``: a campaign.

Does automation work?

- ``automation``: sensors' last runs. ``heartbeat``: the dead man's switch.
- ``partition_statuses``: of the orchestrator, against the log.

What keeps tables small?

- ``maintenance``, ``maintenance_plan``: chores.
- ``reclaim``: deletes files past the window.
- ``erasure``, ``find_person``: rows of a person.

>>> from decimal import Decimal
>>> from backfill_assets.upkeep.bounds import RepairBounds, why_beyond
>>> why_beyond(RepairBounds(days=100), days=120, needs=Decimal(0), lately=Decimal(0), price=None)
'it would rebuild 120 days, and a repair may rebuild 100'
"""
