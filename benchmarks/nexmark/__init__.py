"""The queries of Nexmark over a backlog of events, and over events as they come; beside Flink and DuckDB."""
