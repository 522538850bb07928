"""What live ingestion costs, measured on the protocol alone: no JVM."""
