"""How removals change the variance of influence."""
