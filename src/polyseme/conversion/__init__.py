"""Import and export of other programs' checkpoints and file formats."""
