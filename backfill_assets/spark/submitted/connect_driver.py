"""A Spark session for as long as the JVM lives that runs this; the settings given beside it make it a Connect server.

Spark's own main class for a server gives every session a class loader of its own, with any settings, for the classes
that a client may bring; ours bring none. Generated code is kept by class loader: with that main class, each run would
compile again what the run before it compiled.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

if __name__ == "__main__":
    SparkSession.builder.getOrCreate()
    sys.stdin.read()  # the JVM holds the other end, which closes however it ends
