"""A plan as a file that is reviewed: read, checked, and planned."""
