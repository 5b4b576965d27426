"""Layers shared by the model families."""
