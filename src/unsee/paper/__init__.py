"""The paper again: its published numbers as data, and every table and figure as a function."""
