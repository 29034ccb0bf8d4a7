"""The SQL engine, its tables and migrations, for SQLite and PostgreSQL."""
