"""What a sample of data says of how it can be declared."""
