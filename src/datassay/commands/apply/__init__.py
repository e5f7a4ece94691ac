"""`datassay apply`: what was decided about samples becomes data."""
