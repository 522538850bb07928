"""A project that uses the package, as any other does: datasets, the data that they land, a demo and a lab."""
