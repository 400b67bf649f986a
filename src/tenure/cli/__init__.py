"""The command line. It formats what `Queue` returns and decides nothing."""
