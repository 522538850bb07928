"""Answers to questions that people ask, made once for commands, pages, letters and ``--json``."""
