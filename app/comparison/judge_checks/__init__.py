"""Whether a judge moved, by its ratings of frozen anchors."""
