"""An HTTP API for models, which existing clients speak, and a page where a person tries them."""
