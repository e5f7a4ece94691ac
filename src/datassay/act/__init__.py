"""Step 3: scores become decisions."""
