"""Operators over the windows of one stream, and of two as sets."""
