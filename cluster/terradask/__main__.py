"""``python -m terradask``: the command line."""

from terradask.cli import main

if __name__ == "__main__":
    main()
