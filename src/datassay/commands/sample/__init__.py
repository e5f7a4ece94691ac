"""`datassay sample`."""
