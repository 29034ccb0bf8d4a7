"""The web shell: middleware, problems, OpenAPI, languages, and the frame of pages."""
