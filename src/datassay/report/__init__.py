"""Step 4: results become pages, tables and files."""
