"""Data given back as decided, and what is needed to read the same data again."""
