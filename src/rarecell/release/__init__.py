"""What was done to the records of a file, and what it cost those who use it."""
