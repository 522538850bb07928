"""Stages a publication again from the inputs that it recorded, and compares."""
