"""A table as a value, and its forms: terminal, Markdown, CSV, LaTeX and Parquet."""
