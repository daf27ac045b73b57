"""A model of your own: the case file, what it names, what speaks against it, and its repair."""
