"""Pages of rating rounds."""
