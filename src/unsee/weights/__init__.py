"""Weights of unknown origin: scanned, opened in a process of their own, written back as they came."""
