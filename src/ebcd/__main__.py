"""``python -m ebcd`` is the command line."""

from ebcd.cli import main

main()
