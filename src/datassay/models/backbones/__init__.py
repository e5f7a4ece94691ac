"""Frozen encoders: images and texts to embeddings, a file per encoder."""
