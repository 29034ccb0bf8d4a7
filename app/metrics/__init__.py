"""Reference metrics of responses, for `saiten analyze metrics`."""
