"""Predict new rows by a model that a command wrote."""
