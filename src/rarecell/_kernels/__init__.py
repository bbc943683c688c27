"""Compiled loops over arrays: arrays in, arrays out."""

from rarecell.machine.compiled_code import find_place

find_place(__file__)
