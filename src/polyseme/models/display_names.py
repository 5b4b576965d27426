"""Names of the families as papers write them, apart from the model classes so that no caller has to import torch."""

DISPLAY_NAMES = {
    "onehot": "one-hot",
    "wordclass": "word clusters",
    "svd": "SVD",
    "nnlm": "NNLM",
    "cbow": "CBOW",
    "skipgram": "skip-gram",
    "glove": "GloVe",
    "elmo": "ELMo",
    "ulmfit": "ULMFiT",
    "cove": "CoVe",
    "transformer": "Transformer",
    "bert": "BERT",
    "mbert": "mBERT",
    "roberta": "RoBERTa",
    "albert": "ALBERT",
    "ernie": "ERNIE",
    "gpt": "GPT",
    "gpt2": "GPT-2",
}
