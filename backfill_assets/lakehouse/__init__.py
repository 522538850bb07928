"""Where tables are files: storage, Delta logs, main, timelines, and the documents beside them.

Core types: ``Storage`` (files below one root), ``MainTable`` (a published table), ``Timeline`` (staged days of a
table), ``Publication`` (records.py), ``Documents`` and ``Series`` (JSON values by name, or by numbers written once).

Damage raises ``LakehouseUnusable``; what would break a table, ``PublicationRefused``. Files are synced
(``Storage.keep``) before a commit names them, and a commit before anything relies on it.
"""
