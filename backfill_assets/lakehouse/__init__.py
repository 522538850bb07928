"""Where tables are files: storage, Delta logs, timelines, and the records kept beside them."""
