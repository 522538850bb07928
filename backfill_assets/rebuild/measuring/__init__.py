"""Measuring files that are written, without Spark where Arrow can."""
