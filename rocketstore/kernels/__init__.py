"""Cython kernels: read and write records, units, items and slots in a buffer, one module for each structure.

``layout`` lists the fields of every structure as NumPy dtypes. Each ``.pyx`` begins with a picture of its bytes.
"""
