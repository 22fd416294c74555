"""Monte Carlo studies: the engine, the experiments that run on it, and planning."""
