"""Nearest neighbours and the variance among them."""
