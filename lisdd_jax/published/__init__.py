"""The published method: physics, regions, form and certificate as printed."""
