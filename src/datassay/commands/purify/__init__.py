"""`datassay purify`."""
