"""SQL over tables that are computed when a statement names them. DuckDB runs the statements."""
