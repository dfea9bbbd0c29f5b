"""Any SELECT as a tree of nodes, whose answer is kept while what it reads changes."""
