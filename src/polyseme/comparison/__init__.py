"""Which representation to use: families trained on one text with one budget, and measured on the same scales."""
