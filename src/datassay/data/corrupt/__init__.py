"""Samples spoiled on purpose, with the truth kept."""
