"""What people and programs get of a prediction: values with names, texts of several formats, and files that resume."""
