"""OpenAI-compatible endpoints: calls, retries, negotiated parameters, replies, prices."""
