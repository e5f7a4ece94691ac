"""Divide mixed samples into blocks (S4)."""
