"""What people look at: figures, the page, and all files of a sweep."""
