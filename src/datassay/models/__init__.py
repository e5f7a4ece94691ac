"""Step 0: reference networks, by name or from the user's module."""
