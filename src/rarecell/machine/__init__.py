"""What the computer offers: cores, memory, disks and signals, whatever the operating system."""
