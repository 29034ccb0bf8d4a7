"""One outside system each. No adapter knows another; only `app.container` builds them."""
