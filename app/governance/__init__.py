"""What administrators decide for a project: policies, how long texts are kept, erasures, and the log of it all."""
