"""Caches what embedded Spark looks up in its JVM, which it would look up again for every column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# As PySpark names them: from columns, from functions of columns, from lists of columns, from functions of functions,
# from observations, and from rows of this process. A name without its package is looked for in each package that
# PySpark has imported, in all JARs.
_CLASSES = (
    "functions",
    "org.apache.spark.sql.functions",
    "PythonUtils",
    "PythonSQLUtils",
    "org.apache.spark.sql.api.python.PythonSQLUtils",
    "SerDeUtil",
)


class _KnownClass:
    """A Java class that knows the methods it was asked for; anything else of it is asked for again."""

    def __init__(self, java_class: Any) -> None:
        self._java_class = java_class

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaMember

        member = getattr(self._java_class, name)
        if isinstance(member, JavaMember):
            setattr(self, name, member)
        return member


def remember_lookups(session: SparkSession) -> None:
    """Let PySpark's functions, in a session inside this process, find classes and methods without asking the JVM.

    PySpark asks Java what ``org.apache.spark.sql.functions`` is, and whether it has a method ``col``, at every
    ``F.col``; the answers are the same as long as the JVM lives. In one process a day from raw to daily revenue asked
    some 5,000 such questions.
    """
    jvm: Any = session.sparkContext._jvm
    for name in _CLASSES:
        if name not in vars(jvm):
            setattr(jvm, name, _KnownClass(getattr(jvm, name)))
