"""What is asked of many rows at once, as expressions of Ibis that DuckDB carries out in this process."""
