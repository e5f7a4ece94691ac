"""Fitting networks: one, many at once, and last layers alone."""
