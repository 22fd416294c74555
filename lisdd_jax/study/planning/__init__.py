"""Planning a study: rows needed for a power, and studies written down in files."""
