"""Analysis of trained models: attention, layer probing, word senses."""
