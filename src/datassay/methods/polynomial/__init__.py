"""Fit a polynomial whose weights can be read (S3, chapter 3)."""
