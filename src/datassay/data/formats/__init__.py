"""A file format a module: how it is known, read and given back, declared in its FORMAT."""
