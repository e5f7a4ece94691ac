"""Finding laws."""
