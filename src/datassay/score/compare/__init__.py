"""Scores compared with each other, with retraining and with simple baselines."""
