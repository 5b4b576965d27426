"""Commands for corpora, labelled data and tokenizers."""
