"""A package, because tests of its runs and of the runs themselves have the same name."""
