"""Commands that analyse and evaluate a model: attention, senses, probe and evaluate."""
