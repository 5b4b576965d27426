"""polyseme export"""

from pathlib import Path
from typing import Annotated

import typer

from polyseme.cli.console import read_texts, report, suggest
from polyseme.cli.options import Model, load_model
from polyseme.cli.progress import spinner


def export(
    model: Model,
    out: Annotated[Path, typer.Option(help="Directory to write, new or empty; for word vectors, a file.")],
    to: Annotated[
        str,
        typer.Option(
            help="onnx: a graph for onnxruntime; int8: the same, quantized. word2vec, word2vec-text, glove: word "
            "vectors. fasttext: word and n-gram vectors. arpa: n-grams, as SRILM and KenLM read them. bilm, fastai, "
            "mtlstm: ELMo, ULMFiT or CoVe weights in their authors' formats."
        ),
    ] = "onnx",
    file: Annotated[
        Path | None, typer.Option(help="Texts for verifying a graph, one per line; by default a built-in sample.")
    ] = None,
) -> None:
    """Export a model as an ONNX graph or as word vectors.

    The output of a graph is compared with that of the model.

    \b
    Examples:
      polyseme export runs/bert --to onnx --out graphs/bert
      polyseme export runs/bert --to int8 --file lines.txt --out graphs/bert-int8
      polyseme export runs/skipgram --to word2vec --out vectors.bin
    """
    texts = read_texts(None, file) if file else None
    from polyseme.conversion.registry import find_exporter

    find_exporter(to).check_packages()
    loaded = load_model(model)
    with spinner("exporting"):
        written, parity = loaded.export(out, to=to, texts=texts)
    if "embed" not in loaded.capabilities:
        print(written)
        suggest("import {} --out DIR", written.parent)
        return
    if parity is None:
        print(f"{written}: vectors of {loaded.encoder.tokens.embedding_dim} dimensions")
        suggest("neighbours {} WORD" if written.is_file() else "doctor", written)
        return
    print(
        f"{written}: on {parity.num_texts} texts the vectors differ by at most {parity.max_difference:.1e}, "
        f"with a cosine of at least {parity.min_cosine:.6f}"
    )
    report("text vectors are the mean of last_hidden_state where attention_mask is 1")
    suggest("embed {} --file FILE --out vectors.npy", model)
