"""Gradients of each sample's loss by layer, from ordinary passes over whole batches."""
