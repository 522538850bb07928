"""What approving a campaign would change."""
