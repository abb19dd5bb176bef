"""Generates recordings from random numbers; does not import stores."""
