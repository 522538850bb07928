"""A project that uses the package, as any other would; only ``definitions`` knows it.

- ``datasets``: what is declared. ``catalog``: all of it.
- ``sample``: data to land, real or synthetic.
- ``demo``: a native backfill of ninety days, followed.
- ``lab``: hazards of a backfill, played with and without this project.
- ``commands``: ``backfill sample``, ``backfill demo`` and ``backfill lab``.
"""
