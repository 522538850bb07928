"""Proposes declarations of datasets from samples of data."""
