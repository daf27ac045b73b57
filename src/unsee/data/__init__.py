"""Samples from anywhere: folders, archives, listings, columns, published files; nothing of them is run."""
