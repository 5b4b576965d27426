"""How well a model does, by sets that others have made."""
