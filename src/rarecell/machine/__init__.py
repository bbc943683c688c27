"""What the computer offers: cores and memory."""
