"""What approving a campaign would change, or how two states differ. No table is written.

- ``find``: the way in: a plan's campaign against main, or any two states.
- ``compare``: one table on two sides; rows are joined by ``judge/compare``.
- ``difference``: what was found, as data.
- ``verdict``: whether that is as expected, in sentences.
- ``letter``: the answer that people approve by.
- ``charts``: by period, as SVG.

>>> from decimal import Decimal
>>> from backfill_assets.difference.difference import Sums
>>> Sums(before=Decimal("-400"), after=Decimal("-500")).share
Decimal('-0.25')
"""
