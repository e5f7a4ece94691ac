"""Derivatives at given weights: gradients, Hessian products, outputs."""
