"""Complexity."""
