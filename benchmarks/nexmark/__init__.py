"""The queries of Nexmark: how fast a backlog of events is worked off, and how late answers are; beside Flink and DuckDB."""
