"""Operators that read and write archives in jobs, asked once."""
