"""`datassay weigh`."""
