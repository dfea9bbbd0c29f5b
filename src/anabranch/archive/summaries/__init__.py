"""Windows summarised by group: made, kept, found again, and asked (§4.2 of the paper)."""
