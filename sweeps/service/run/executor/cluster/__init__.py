"""Reaches a Ray cluster: its address, and sweeps that are sent there and run without this machine."""
