"""The diagnosis inside differentiable models."""
