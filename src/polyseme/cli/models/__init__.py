"""Commands for model directories and the machine: import, export, info, serve and doctor."""
