"""What a person decided about samples, and what that teaches."""
