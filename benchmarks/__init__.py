"""What Saiten's speed is measured by. Nothing here is part of the test command."""
