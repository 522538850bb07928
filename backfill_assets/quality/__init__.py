"""When a day is good: verdicts, from metrics alone. No row is read here.

The rules are in ``model/rules``, and ``judge`` measures. Verdicts are kept by ``rebuild/verdicts``; whether a
difference is as expected is said by ``difference/verdict``.

- ``measures``: the metrics that a table's rules need.
- ``gates``: verdicts on staged days; a broken rule holds a day back.
- ``watchdogs``: verdicts on published days, read again.
- ``as_usual``: whether figures are as in the recent past.
- ``deliveries``: whether a source delivered in time, and all of it.
"""
