"""A world in one process: virtual time, simulated processes, a network that cannot be relied on."""
