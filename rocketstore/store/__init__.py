"""How the files of a store work together."""
