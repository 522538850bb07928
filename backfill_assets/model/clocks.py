"""Clocks, randomness, environment: no transform may use them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_FUNCTIONS = re.compile(r"pyspark\.sql\.(connect\.)?functions(\.builtin)?\.(?P<name>\w+)")
_OF_SPARK = frozenset(
    [
        "current_date",
        "curdate",
        "current_time",
        "current_timestamp",
        "now",
        "localtimestamp",
        "rand",
        "randn",
        "random",
        "uuid",
        "randstr",
        "uniform",
        "shuffle",
        "monotonically_increasing_id",
        "spark_partition_id",
        "input_file_name",
        "input_file_block_start",
        "input_file_block_length",
    ]
)
_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp"})
_BARE_IN_SQL = frozenset({"current_date", "current_time", "current_timestamp", "localtimestamp"})
_OF_FRAMES = frozenset({"sample", "sampleBy", "randomSplit"})
_OF_PYTHON = frozenset(
    [
        "datetime.datetime.now",
        "datetime.datetime.utcnow",
        "datetime.datetime.today",
        "datetime.date.today",
        "time.time",
        "time.time_ns",
        "time.monotonic",
        "time.monotonic_ns",
        "time.perf_counter",
        "time.perf_counter_ns",
        "time.localtime",
        "time.gmtime",
        "time.ctime",
        "time.strftime",
        "os.environ",
        "os.getenv",
        "os.urandom",
        "os.getpid",
        "uuid.uuid1",
        "uuid.uuid4",
        "uuid.uuid6",
        "uuid.uuid7",
        "pandas.Timestamp.now",
        "pandas.Timestamp.today",
        "pandas.Timestamp.utcnow",
    ]
)
_MODULES = ("random", "secrets", "numpy.random", "backfill_assets.clock")
NAMED_IN = frozenset({"call_function", "call_udf"})
SQL_TAKEN_BY = frozenset({"expr", "selectExpr", "sql", "where", "filter", "call_function", "call_udf"})
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|--[^\n]*|/\*.*?\*/", re.DOTALL)
_CALLED = re.compile(r"\b([a-z_0-9]+)\s*\(\s*(\))?", re.IGNORECASE)
_WORD = re.compile(r"\b[a-z_]+\b", re.IGNORECASE)


def asks_by_name(path: str) -> str:
    if (found := _FUNCTIONS.fullmatch(path)) and found["name"] in _OF_SPARK:
        return f"F.{found['name']}"
    if path in _OF_PYTHON or any(path == each or path.startswith(f"{each}.") for each in _MODULES):
        return path
    parent = path.rpartition(".")[0]
    return path if parent in _OF_PYTHON else ""


def asks_by_call(path: str, method: str, arguments: int) -> str:
    """Empty if nothing; a method of a computed value has no ``path``."""
    found = _FUNCTIONS.fullmatch(path)
    if found and found["name"] in _WITHOUT_ARGUMENTS and not arguments:
        return f"F.{found['name']}"
    return f".{method}()" if not path and method in _OF_FRAMES and arguments else ""


def asks_in_sql(texts: Sequence[str], *, by_name: bool) -> Iterator[str]:
    """``by_name`` if a text may be just a function's name."""
    for text in texts:
        plain = _QUOTED.sub(" ", text)
        for name, closed in ((each[1].lower(), each[2]) for each in _CALLED.finditer(plain)):
            if name in _OF_SPARK or (name in _WITHOUT_ARGUMENTS and closed):
                yield f"{name}() in SQL"
        called = {each[1].lower() for each in _CALLED.finditer(plain)}
        words = {each.lower() for each in _WORD.findall(plain)} - called
        whole = plain.strip().lower()
        yield from (f"{word} in SQL" for word in sorted(words & _BARE_IN_SQL))
        if by_name and whole in _OF_SPARK - _BARE_IN_SQL:
            yield f"{whole}() in SQL"
