"""The papers' applications, runnable."""
