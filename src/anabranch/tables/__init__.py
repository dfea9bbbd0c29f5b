"""Tables: rows by key that change, kept as a log of their changes with snapshots beside it."""
