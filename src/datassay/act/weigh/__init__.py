"""How much each sample should count."""
