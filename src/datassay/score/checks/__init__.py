"""Checks of the data beside its labels: duplicates, outliers, drift, imbalance."""
