"""Live ingestion: events of a topic or of the landing folder, published by the second."""
