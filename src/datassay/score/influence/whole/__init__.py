"""Influence by Hessians of all weights together, on arrays: one method per file."""
