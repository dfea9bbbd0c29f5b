"""The figures of merges and data servers."""
