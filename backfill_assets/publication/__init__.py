"""The only way into a table: prepare, finish, close. Rollback, compaction and reclaiming use it too."""
