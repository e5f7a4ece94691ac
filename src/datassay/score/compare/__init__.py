"""Scores held against each other, against retraining and against simple rivals."""
