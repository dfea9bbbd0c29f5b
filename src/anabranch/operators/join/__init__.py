"""How the window join works inside: windows, conditions, access to rows, steps and runs."""
