"""Explicit regularisation."""
