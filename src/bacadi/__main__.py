"""`python -m bacadi` is the command `bacadi`."""

from bacadi.cli import main

if __name__ == "__main__":
    main()
