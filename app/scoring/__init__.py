"""One result: prompt, verdict, blend and record, of a response or a conversation."""
