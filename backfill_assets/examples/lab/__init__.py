"""The five hazards of a backfill beside a live stream, each played without this project and with it, and counted.

- ``hazards``: what lands when, and each way to deal with it.
- ``ways``: plays and counts them. ``lakes``: on what.
- ``counts``: what came out, in numbers and sentences.
- ``page``: the page of the docs, with its chart.
"""
