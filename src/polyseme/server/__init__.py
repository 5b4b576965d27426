"""HTTP server: an API compatible with OpenAI's clients, and a playground."""
