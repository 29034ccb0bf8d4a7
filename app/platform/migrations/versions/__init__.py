"""One revision a file, numbered."""
