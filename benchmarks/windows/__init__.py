"""The figures of indexed sliding windows."""
