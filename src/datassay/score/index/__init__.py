"""Gradients of training samples stored for queries of new inputs."""
