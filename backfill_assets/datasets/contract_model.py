"""The base of every contract: a pandera model of a Spark table."""

from __future__ import annotations

import pandera.pyspark as pa


class Contract(pa.DataFrameModel):  # type: ignore[type-arg]
    """Subclass it with one annotated ``pa.Field`` per column; columns are not nullable unless they say so."""
