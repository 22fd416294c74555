"""Numerical building blocks: order statistics, least squares, tail probabilities."""
