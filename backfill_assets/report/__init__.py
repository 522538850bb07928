"""One answer to each question, and four ways to show it. Only renderers know how an answer looks.

- ``answer``: ``Answer`` and its typed parts: ``Fact``, ``Line``, ``Grid``, ``Chart``, ``Code``. JSON, too.
- ``terminal``: boxes on a terminal, tab-separated text on a pipe.
- ``fitting``: makes a table fit a terminal.
- ``markdown``: for Dagster's UI and pull requests.
- ``html``: one page without scripts.
- ``json_log``: logs as lines of JSON.

>>> from backfill_assets.report.answer import plain, shown, size
>>> shown(size(1_468_006)), plain(size(1_468_006))
('1.4 MiB', 1468006)
"""
