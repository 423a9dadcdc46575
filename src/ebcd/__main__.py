"""``python -m ebcd`` is the command line."""

from ebcd.cli import main

if __name__ == "__main__":
    main()
