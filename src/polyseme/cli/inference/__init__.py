"""Commands that use a model: fill, generate, ask, translate, score, embed, neighbours, analogy and predict."""
