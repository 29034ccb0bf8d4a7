"""OpenTelemetry made safe for texts: what leaves in a span, which spans there are, and what a caller's trace says."""
