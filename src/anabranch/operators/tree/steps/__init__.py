"""What the nodes of a tree do with changes, one file for each kind."""
