"""How many samples a network needs (S3, chapter 2)."""
