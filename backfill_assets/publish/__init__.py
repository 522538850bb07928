"""The publication protocol, its log, and what follows from it: compaction, mending, holds, notices.

Core types: ``Publisher`` (pin, publish, recover), ``PublicationLog`` and ``Head`` (log.py, head.py), ``Pin`` (expected
state of days and inputs), ``Conflict`` (days to stage again).

Order of reads: the log, the tables, then the append on that same version of the log. Whoever meets an open entry
finishes it. Errors: ``PublicationRefused`` for what can never be published, ``CommitRefused`` if a table takes no
commit (the entry stays open), ``LakehouseBusy`` after too many lost races.
"""
