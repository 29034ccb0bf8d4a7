"""One outside system each. No adapter knows another; only `app.bootstrap` builds them."""
