"""`datassay polynomial`."""
