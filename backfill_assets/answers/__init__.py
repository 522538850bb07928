"""The answer to each question that people ask, made once for commands, pages, letters and ``--json``."""
