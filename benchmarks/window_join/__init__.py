"""The figures of joins inside windows."""
