"""Files: tables and matrices for the command line, and sources of chunks for `Chunks`."""
