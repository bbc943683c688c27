"""What does somebody who holds a register find in a released file?"""
