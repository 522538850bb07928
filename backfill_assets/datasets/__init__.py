"""What is declared."""
