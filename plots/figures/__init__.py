"""One module per family of figures; each draws from a record, given options, into a folder."""
