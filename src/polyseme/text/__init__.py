"""Text as it comes, and text as token ids: corpora, sentences, tokenizers and stores."""
