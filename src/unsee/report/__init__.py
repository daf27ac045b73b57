"""Telling: pictures of what was forgotten and what it cost."""
