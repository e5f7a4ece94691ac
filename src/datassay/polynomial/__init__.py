"""Polynomial regression: a surrogate whose weights can be read (S3, chapter 3)."""
