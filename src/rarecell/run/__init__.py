"""Runs: what was asked for, the steps, and the files they leave."""
