"""What concerns a cluster of several nodes: its address, what its nodes see, growth, and sweeps that are sent there."""
