"""Divide mixed samples into blocks."""
