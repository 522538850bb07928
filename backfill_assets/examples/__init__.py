"""A project that uses the package: datasets, data to land, a demo and a lab."""
