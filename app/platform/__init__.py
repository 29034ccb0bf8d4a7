"""What every capability stands on: settings, SQL, Redis, telemetry, threads, charts and the web shell."""
