"""The explorer: one page, a file without a network, on which a reader sets two rungs beside each other."""
