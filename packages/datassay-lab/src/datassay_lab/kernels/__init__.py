"""From kernels to networks."""
