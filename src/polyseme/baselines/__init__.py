"""Strong simple baselines for the neural families: models of counts, without a network."""
