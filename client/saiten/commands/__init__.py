"""The commands of `saiten`: one module per command."""
