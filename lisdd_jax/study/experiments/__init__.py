"""The published experiments E1 to E5: settings, printed numbers with their source, and runs."""
