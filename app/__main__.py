"""`python -m app` is `saiten`."""

from app.cli import main

main()
