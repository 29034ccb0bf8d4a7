"""Values that everybody speaks: rubric, dialogue, conversation, result, signature, errors. Pure."""
