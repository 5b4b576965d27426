"""The object a user holds: a loaded model with analysis, evaluation and export."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from polyseme.analysis.attention import Attention, compute_attention
from polyseme.analysis.probe_data import read_probe_dataset
from polyseme.analysis.probing import ProbeConfig, ProbeResult, probe_layers
from polyseme.analysis.senses import Senses, SensesConfig, analyse_senses, find_occurrences
from polyseme.conversion.formats import Parity
from polyseme.conversion.registry import export_model
from polyseme.datasets.labelled_files import read_examples
from polyseme.errors import ConfigError
from polyseme.evaluation.passages import SearchResult, read_passages, search_vectors
from polyseme.evaluation.prompting.ask import AskConfig, ask
from polyseme.evaluation.results import MetricResult
from polyseme.evaluation.suites import SuiteConfig, run_suite
from polyseme.inference.model import LoadedModel
from polyseme.tokenization.config import SpecialTokens
from polyseme.training.storage.manifest import write_manifest
from polyseme.training.storage.model_dir import CONFIG, WEIGHTS, write_model
from polyseme.training.storage.run_dir import SAVED_TOKENIZER


@dataclass(frozen=True, kw_only=True)
class Pretrained(LoadedModel):
    """A loaded model with analysis, evaluation and export on top."""

    def attention(self, text: str, pair: str | None = None) -> Attention:
        """Return the attention weights of every head for a text or a pair of texts.

        Args:
            text: A text, as long as the model at most; what is longer is cut off and reported.
            pair: A second text, in the same sequence: [CLS] a [SEP] b [SEP].

        Returns:
            The weights (layers, heads, tokens, tokens) with statistics of each head (Clark et al., 2019); of a
            translation model the cross-attention too. A notebook displays them; `.page()` is an HTML page.

        Example:
            >>> import polyseme as ps
            >>> attention = ps.load("runs/bert").attention("The bank of the river was steep.")
            >>> html = attention.page()
        """
        return compute_attention(self, text, pair)

    def senses(
        self,
        word: str,
        texts: str | Path | Sequence[Any],
        *,
        against: str | Path | Sequence[Any] | None = None,
        **settings: Any,
    ) -> Senses:
        """Collect the vectors of a word in context, layer by layer, and measure how well they separate its senses.

        Args:
            word: The word; several forms between commas: "bank,banks".
            texts: A file, a folder or a built-in sample; or a list of texts, of (text, sense) pairs, or of rows.
            against: Other occurrences, whose senses are predicted by the nearest one in `texts`; by default each
                occurrence is predicted by all others.
            **settings: `case` ("any" or "exact"), `max_occurrences` (500), `num_neighbours` (listed on the page, 5),
                `seed`.

        Returns:
            Vectors, a two-dimensional projection and metrics of each layer: nearest-neighbour accuracy, silhouette and
            self-similarity (Ethayarajh, 2019).

        Example:
            >>> import polyseme as ps
            >>> senses = ps.load("runs/bert").senses("bank", "town")
            >>> [layer.metrics["accuracy"] for layer in senses.layers]
        """
        config = SensesConfig.parse(settings, group="senses")
        return analyse_senses(
            self, find_occurrences(word, texts, config, against=against), config, name=self.folder.name
        )

    def probe(
        self,
        data: str | Path,
        *,
        task: str | Sequence[str] = (),
        dev: str | Path | None = None,
        columns: Mapping[str, str] | None = None,
        **settings: Any,
    ) -> list[ProbeResult]:
        """Measure what each layer encodes by edge probing with a scalar mix (Tenney et al., 2019).

        Args:
            data: Labelled file: CoNLL-U, CoNLL, edge-probing JSON lines, or a table with text and label.
            task: pos, dependencies, tag, classify or edges, one or several; inferred from the file by default.
            dev: Dev file; a tenth of `data` is held out by default.
            columns: Columns under other names, such as {"text": "review"}.
            **settings: `max_sentences` (of train and of dev, 2000), `epochs` (4), `seeds` (1), `seed` (0).

        Returns:
            A result per task: scalar-mix weights, centre of gravity, and the gain of each layer over those below it.

        Example:
            >>> import polyseme as ps
            >>> results = ps.load("runs/bert").probe("train.conllu", task="pos", dev="dev.conllu")
        """
        config = ProbeConfig.parse(settings, group="probe")
        kinds = [task] if isinstance(task, str) else task
        dataset = read_probe_dataset(
            data, dev, kinds, columns=columns, max_sentences=config.max_sentences, seed=config.seed
        )
        return [step.result for step in probe_layers(self, dataset, config) if step.result]

    def evaluate(self, data: str | Path, *, suite: str = "words", **settings: Any) -> list[MetricResult]:
        """Evaluate the model on a benchmark.

        Args:
            data: A file or folder with the data of the suite.
            suite: words (word similarity and analogies in layer 0), likelihood (bits per character of documents),
                minimal-pairs (grammatical acceptability, as BLiMP), senses (word sense disambiguation, or WiC),
                retrieval (a folder of the BEIR format, or text to derive queries from; beside BM25), prompts (zero-shot
                and few-shot prompting), or translation (BLEU).
            **settings: `most` (maximum number of items of each set; 0 for all), `seed`; for prompts `shots`,
                `examples` and `language`; for analogies `method`; for retrieval `split`.

        Returns:
            Metrics with their standard errors and the number of items that the vocabulary covers.

        Example:
            >>> import polyseme as ps
            >>> results = ps.load("runs/skipgram").evaluate("wordsim353.tsv", suite="words")
        """
        return run_suite(self, Path(data), suite, SuiteConfig.parse(settings, group="evaluate"))

    def ask(self, texts: Sequence[str], **settings: Any) -> list[str]:
        """Answer questions by zero-shot or few-shot prompting of a language model (Radford et al., 2019).

        Args:
            texts: Questions, or texts to summarise or translate.
            **settings: `task` (answer, summarise, translate or choose), `passage`, `choices`, `shots` (a file of
                examples), `most` (maximum number of examples in the prompt), `language`, `max_tokens`, `seed`.

        Returns:
            An answer per text.

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/gpt2")
            >>> answer, = model.ask(["What do bakers sell?"], task="choose", choices=("bread", "money"))
        """
        return [reply.answer for reply in ask(self, texts, AskConfig.parse(settings, group="ask"))]

    def search(
        self,
        queries: Sequence[str],
        corpus: str | Path | Sequence[str],
        *,
        top: int = 10,
        whole_documents: bool = False,
    ) -> list[list[SearchResult]]:
        """Search a corpus by the cosine similarity of vectors.

        Args:
            queries: Texts to search for.
            corpus: A file, a folder, a pattern or a built-in sample, whose documents are split into passages; or a list
                of texts. Their vectors are cached on disk.
            top: Number of results for each query.
            whole_documents: Search documents as a whole instead of passages of about a paragraph.

        Returns:
            For each query the best texts with their cosines, the best first.

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/skipgram")
            >>> results, = model.search(["how rivers change their course"], "text/", top=3)
            >>> best = results[0].text
        """
        texts = read_passages(corpus, whole_documents=whole_documents)
        return search_vectors(self, queries, texts, top=top)

    def score_task(
        self, data: str | Path, *, task: str | None = None, columns: Mapping[str, str] | None = None
    ) -> dict[str, float]:
        """Evaluate a fine-tuned model on a labelled file.

        Args:
            data: A labelled file in any of the formats that `finetune` reads.
            task: Name of the task, where the model was fine-tuned for several.
            columns: Columns under other names, such as `{"text": "review"}`.

        Returns:
            The metrics of the task by name, such as accuracy and macro F1.

        Example:
            >>> import polyseme as ps
            >>> model = ps.load("runs/bert-reviews")
            >>> accuracy = model.score_task("test.tsv")["accuracy"]
        """
        chosen, examples = self._find_task(task), read_examples(data, self.example_type(task), columns=columns)
        return chosen.score(self.predict(examples, task=task), examples)

    def save(self, folder: str | Path) -> None:
        """Write a model directory, which transformers opens too where it knows the family.

        Args:
            folder: A new or empty directory.

        Example:
            >>> import polyseme as ps
            >>> ps.load("vectors.bin").save("models/vectors")
        """
        if not self.encoder.uses_characters and not isinstance(self.encoder.tokens.weight, Tensor):
            raise ConfigError('int8 weights cannot be saved; load the model with weights="float32"')
        folder, specials = Path(folder), self.tokenizer.specials if self.tokenizer else SpecialTokens()
        extra = {"pad_token_id": specials.pad}
        if self.encoder.context == "left":
            extra |= {"bos_token_id": specials.end, "eos_token_id": specials.end}
        extra = {name: id for name, id in extra.items() if id is not None}
        write_model(folder, family=self.family, encoder=self.encoder, heads=self.objective, extra=extra)
        if self.tokenizer:
            self.tokenizer.save(folder, max_length=self.encoder.config.max_length)
        write_manifest(folder, [CONFIG, WEIGHTS, *SAVED_TOKENIZER])

    def export(
        self, path: str | Path, *, to: str = "onnx", texts: Sequence[str] | None = None
    ) -> tuple[Path, Parity | None]:
        """Write the model in a format of another program.

        Args:
            path: A new or empty folder; for word vectors, a file.
            to: onnx or int8 (graphs for onnxruntime); word2vec, word2vec-text or glove (word vectors: layer 0 without
                special tokens); arpa (n-grams, with the tokenizer beside them); bilm, fastai or mtlstm (weights of an
                ELMo, ULMFiT or CoVe as their authors' programs read them).
            texts: Texts on which the vectors of a graph are compared with the model's; by default a built-in sample.

        Returns:
            The path of the file, and for graphs the largest difference and smallest cosine found.

        Example:
            >>> import polyseme as ps
            >>> path, parity = ps.load("runs/bert").export("graphs/bert", to="onnx")
        """
        return export_model(self, Path(path), to, texts=texts)
