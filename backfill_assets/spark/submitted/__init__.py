"""Scripts for ``spark-submit``, in a folder of their own: Python looks in it first for everything they import.

- ``connect_driver``: keeps a session while its JVM lives; settings make it a Connect server.
"""
