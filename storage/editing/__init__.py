"""Changes of stores: append, remove, rename actions, merge; each is atomic, and files without changes are linked."""
