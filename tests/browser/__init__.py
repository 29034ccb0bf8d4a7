"""The dashboard in a real browser, on a service of its own process with the runs of the demo in it."""
