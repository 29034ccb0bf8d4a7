"""Parts of the language and register checks: passages, scripts, Japanese sentence ends, Korean endings."""
