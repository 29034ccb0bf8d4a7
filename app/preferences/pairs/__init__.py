"""One pair: which of two responses, or of two conversations, a judge prefers."""
