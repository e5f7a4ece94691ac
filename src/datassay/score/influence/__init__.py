"""Influence at trained weights: one method per file."""
