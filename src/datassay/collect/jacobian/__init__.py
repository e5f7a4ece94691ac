"""Per-sample Jacobians of a network, layer by layer."""
