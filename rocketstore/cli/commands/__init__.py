"""The options of each command. These modules import neither NumPy nor the store."""
