"""What would be rebuilt, why, from what and at what cost."""
