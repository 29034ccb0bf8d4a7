"""The parts of `RubricFiles`: YAML that knows its lines, and faults in the words of somebody who writes it."""
