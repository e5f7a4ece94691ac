"""Step size, initialisation, noise."""
