"""A Spark session for as long as the JVM lives that runs this; the settings given beside it make it a Connect server.

Spark's own main class gives each session a class loader, for a client's classes; ours bring none. Generated code is
kept by class loader: each run would compile again what another had.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    sys.stdin.read()  # the JVM holds the other end, which closes however it ends
