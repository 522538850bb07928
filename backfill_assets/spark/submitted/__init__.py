"""Scripts for ``spark-submit``, in a folder of their own: Python looks in it first for everything they import."""
