"""The report of a search: figures with the numbers of each, the page and lines for the terminal; knows no study."""
