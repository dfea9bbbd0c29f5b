"""A SELECT as a standing query: the table of plans, and what all of them need."""
