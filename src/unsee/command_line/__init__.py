"""The command line's verbs: their words, their options, what they do and what they print."""
