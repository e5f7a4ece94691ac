"""Data sets made here: built-in names, mixtures, functions."""
