"""Comparison of model families: trained on the same text with the same budget, evaluated on the same items."""
