"""Gradients of training samples that are kept, to be asked about new inputs later."""
