"""Generative models."""
