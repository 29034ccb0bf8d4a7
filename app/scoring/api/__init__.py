"""One evaluation over HTTP, of a response or of a conversation."""
