"""Preference runs: pairs of the responses that stored runs hold, judged as a batch."""
