"""The experiments of the EBCD paper, reproduced through the public names of `ebcd`."""
