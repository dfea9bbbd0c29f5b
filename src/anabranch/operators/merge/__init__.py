"""Merges of streams whose keys only nearly agree: the ε,δ-merge of M. Mazzucco et al. (2002)."""
