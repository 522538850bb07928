"""A Spark session for its JVM's life; the settings given beside it make it a Connect server.

Spark's own main class gives each session a class loader, by which generated code is kept: each run would compile it
again.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    sys.stdin.read()  # the JVM holds the other end, which closes however it ends
