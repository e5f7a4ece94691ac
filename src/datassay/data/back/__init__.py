"""Data given back as they came: the same kind of file, other labels, fewer samples."""
