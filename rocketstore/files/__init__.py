"""One thin class for each kind of file: opening, naming, sizes, closing."""
