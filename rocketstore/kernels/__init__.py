"""Cython kernels: where fields, slots, items, units and records are in a buffer. One module a structure."""
