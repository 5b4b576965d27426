"""Evaluation on test sets: perplexity, minimal pairs, word similarity, word senses, BLEU and prompting."""
