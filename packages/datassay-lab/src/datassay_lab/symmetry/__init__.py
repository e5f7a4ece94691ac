"""Symmetry in data."""
