"""Answers that change, kept up to date."""
