"""Implicit regularisation."""
