"""What a model has learnt, looked at from inside."""
