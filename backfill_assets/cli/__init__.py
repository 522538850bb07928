"""The command line: ``backfill VERB``. Errors of this package are one message, as JSON with ``--json``.

- ``verbs``: a module for each command. ``group``: finds them, words errors.
- ``options``, ``selections``, ``ids``, ``completion``: what people type.
- ``output``: what is printed, asked and sent.
- ``wiring``: settings, datasets, storage, publisher.
- ``foreground``: builders with Spark, and progress.
- ``campaigns``: what a campaign's commands share.
- ``prometheus_text``: figures as Prometheus reads them.
- ``dev``: processes of ``backfill dev``. ``running_dev``: how others find them.

>>> from backfill_assets.cli.ids import matching
>>> matching("2017", ids=[], names=["2017-as-sold", "standby"])
['2017-as-sold']
"""

from backfill_assets.cli.group import main

__all__ = ["main"]
