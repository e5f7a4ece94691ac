"""Which samples can go, and what that costs."""
