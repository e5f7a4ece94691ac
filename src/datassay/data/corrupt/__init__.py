"""Samples corrupted on purpose, with the truth kept."""
