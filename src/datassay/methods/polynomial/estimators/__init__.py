"""scikit-learn estimators of polynomials and of their inputs."""
