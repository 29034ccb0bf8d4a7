"""`python -m app` is `saiten`."""

from app.cli import main

# A process that this one starts imports this module too, under another name.
if __name__ == "__main__":
    main()
