"""Least trimmed squares: random starts, concentration steps, and the search that runs them."""
