"""What gradient descent learns first."""
