"""Finished work on disk, with checksums."""
