"""Runs: their configuration, their steps, and the files they write."""
