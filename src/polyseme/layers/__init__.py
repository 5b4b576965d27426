"""Bricks that several families use unchanged."""
