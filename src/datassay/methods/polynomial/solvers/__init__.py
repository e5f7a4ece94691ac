"""Solve for the weights of all monomials at once."""
