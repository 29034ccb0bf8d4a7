"""Judges, translators, encoders and language models: one module or package for each, found through the registry."""
