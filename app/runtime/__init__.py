"""What every part of a process uses: settings, tasks, threads, caches, logging, telemetry."""
