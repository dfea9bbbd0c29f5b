"""Text into statements and trees, token by token: first our own clauses, then sqlglot for the rest."""
