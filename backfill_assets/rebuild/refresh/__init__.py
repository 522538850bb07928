"""Reads a source again: what its landed files have now, against what raw holds of them."""
