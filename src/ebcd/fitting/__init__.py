"""Fitting: the alternating loop, its starts, and the number of components."""
