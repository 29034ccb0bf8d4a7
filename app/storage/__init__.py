"""Where things are kept: SQL for what must last, Redis for what processes share."""
