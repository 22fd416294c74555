"""The calibrated method: exact tests, refined edges, and abstention where the data do not tell."""
