"""`python -m saiten_server` is `saiten`."""

from saiten_server.cli import main

# A process that this one starts imports this module too, under another name.
if __name__ == "__main__":
    main()
