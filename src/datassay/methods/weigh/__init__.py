"""How much each sample should count (S0)."""
