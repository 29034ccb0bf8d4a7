"""Scoring on an engine that exists, without a service: Arrow in and out, and runs as Parquet files.

Needs the extra `offline`. Nothing here is imported before it is used, so that a worker of an engine starts quickly.
"""
