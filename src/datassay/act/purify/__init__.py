"""Remove what does not belong, step by step."""
