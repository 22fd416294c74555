"""Studies with known truth: scenarios, baselines, metrics, and the published experiments E1 to E5."""
