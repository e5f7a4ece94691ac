"""scikit-learn estimators: check, call, keep."""
