"""The default method: exact tests, refined edges, and abstention where the data do not tell."""
