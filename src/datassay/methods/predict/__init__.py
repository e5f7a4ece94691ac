"""Predict new rows by a model that partition, weigh or polynomial wrote."""
