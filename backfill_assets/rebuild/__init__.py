"""Stages days, judges them, and publishes them."""
