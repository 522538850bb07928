"""Queries over many rows: Ibis expressions that DuckDB evaluates in this process."""
