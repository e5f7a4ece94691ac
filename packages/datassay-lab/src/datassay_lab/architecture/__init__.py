"""Architecture."""
