"""Many results: document, intake, queue, worker, frame, summary, estimates."""
