"""Frozen encoders: images and texts to embeddings, a file an encoder."""
