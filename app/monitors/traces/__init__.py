"""Traces in: spans of OpenTelemetry are read, stored, and put together to conversations."""
