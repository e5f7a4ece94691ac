"""Remove what does not belong, step by step (S4)."""
