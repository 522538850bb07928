"""The engine: sessions, servers, workers, JARs and Java.

``open_session`` gives embedded Spark or, with ``SPARK_REMOTE``, a session of a Connect server; the same code runs on
both. Work in Spark's workers goes through ``in_workers``, ``of_partitions`` and ``by_query``. What keeps Spark from
starting raises ``LakehouseUnusable``; a server that goes away, ``SparkLost``.
"""
