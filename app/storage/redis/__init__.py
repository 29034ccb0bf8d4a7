"""What processes share through Redis: replies, flow control, the queue, request counts."""
