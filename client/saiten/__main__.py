"""`python -m saiten` is `saiten`."""

from saiten.commands import main

if __name__ == "__main__":
    main()
