"""Influence at trained weights: one method a file."""
