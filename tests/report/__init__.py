"""A package, because tests of the paper's page and of the report's page have the same name."""
