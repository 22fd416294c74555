"""Studies with known truth: scenarios, baselines, metrics, and the published experiments."""
