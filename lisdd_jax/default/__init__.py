"""The default method: the place from all rows, the form on held-out rows."""
