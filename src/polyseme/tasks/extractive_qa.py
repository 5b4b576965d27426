"""Extractive question answering: the span of a passage that answers a question.

Every token is scored as the start and as the end of the answer (Devlin et al., 2018, section 4.2). Families that encode
texts separately combine the pooled question with each token of the passage.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from polyseme.batch import IGNORED, Batch, Encoded
from polyseme.corpora.scripts import is_chinese
from polyseme.datasets.qa_windows import PassageWindows, PredictedAnswer, PredictedAnswers
from polyseme.datasets.squad import SpanExample
from polyseme.models.base import Encoder
from polyseme.tasks.base import Task
from polyseme.tasks.config import FineTuningConfig, TaskConfig
from polyseme.tasks.inputs.dataset import Instance
from polyseme.tasks.inputs.input_formatter import InputFormatter
from polyseme.tasks.metrics import Language, best_threshold, score_answer, score_answers
from polyseme.tasks.networks.heads import Head
from polyseme.tasks.spec import TaskSpec, always
from polyseme.tokenization.tokenizer import Tokens

ALWAYS_ANSWER = -1e9
"""The threshold at which every question is answered."""

_NO_QUESTION = Tokens(ids=[], tokens=[], offsets=[], segments=[], special=[])


class ExtractiveQaConfig(TaskConfig):
    """Windows of long passages, and when to answer."""

    kind: Literal["span"] = "span"
    stride: int = Field(0, ge=0)  # tokens between the starts of windows of a long passage; 0: a third of a window
    longest_answer: int = Field(30, ge=1)  # tokens
    threshold: float = ALWAYS_ANSWER  # minimum margin of an answer over the question being unanswerable
    language: Language = "en"  # rules for comparing answers: SQuAD (en) or CMRC 2018 (zh)

    @classmethod
    def infer_config(cls, examples: Sequence[SpanExample]) -> dict[str, Any]:
        text = "".join(example.passage for example in examples[:100])
        # The default, until it is tuned on a dev set.
        threshold = ALWAYS_ANSWER if all(example.answers for example in examples) else 0.0
        return {"language": "zh" if is_chinese(text) else "en", "threshold": threshold}

    def calibrated(self, scores: Mapping[str, float]) -> Self:
        return self.replace(threshold=scores["threshold"])


@dataclass(frozen=True, kw_only=True)
class AnswerPrediction:
    """The best answers; with unanswerable questions, none of them may be good enough."""

    answers: PredictedAnswers
    probabilities: tuple[float, ...]  # of each answer; those of no answer make up the rest
    threshold: float

    @property
    def text(self) -> str:
        """The chosen answer, empty if the question is predicted to be unanswerable."""
        return self.chosen.text if self.chosen else ""

    @property
    def chosen(self) -> PredictedAnswer | None:
        """The best answer, if its margin reaches the threshold."""
        return self.answers.choose(self.threshold)

    @property
    def probability(self) -> float:
        """Probability of the chosen answer, or of there being none."""
        return self.probabilities[0] if self.chosen else 1 - sum(self.probabilities)

    def to_json(self, example: SpanExample) -> dict[str, Any]:
        """All fields, as JSON values."""
        best = self.answers.best
        return {
            "id": example.id,
            "answer": self.text,
            "start": self.chosen and self.chosen.start,
            "end": self.chosen and self.chosen.end,
            "probability": round(self.probability, 6),
            "margin": round(self.answers.margin, 6) if best else None,
            "best": [
                {**asdict(answer), "score": round(answer.score, 6), "probability": round(probability, 6)}
                for answer, probability in zip(best, self.probabilities, strict=True)
            ],
        }

    def to_row(self, example: SpanExample) -> dict[str, str]:
        """The cells of a table row."""
        span = f"{self.chosen.start}-{self.chosen.end}" if self.chosen else ""
        return {"answer": self.text, "characters": span, "probability": f"{self.probability:.3f}"}


@dataclass(frozen=True, kw_only=True)
class PassageInstance(Instance):
    """A window of a passage."""

    windows: PassageWindows  # all windows of the passage


class ExtractiveQa(Task[SpanExample, AnswerPrediction]):
    """A start score and an end score for each token of a passage."""

    selection_metric = "best_f1"
    hf_class = "QuestionAnswering"

    def __init__(self, name: str, config: ExtractiveQaConfig, finetuning: FineTuningConfig, encoder: Encoder) -> None:
        super().__init__(name, finetuning, encoder)
        self.config = config
        width, bi_encoder = self.features.width, encoder.input_format == "bi_encoder"
        self.question = nn.Linear(self.features.pooled_width, width) if bi_encoder else None
        self.num_scores = 2
        self.head = Head(width if self.question is None else 3 * width, self.num_scores, dropout=finetuning.dropout)

    def instances(self, formatter: InputFormatter, examples: Sequence[SpanExample]) -> list[PassageInstance]:
        texts = list(dict.fromkeys(text for example in examples for text in example.texts))
        encoded = dict(zip(texts, formatter.tokenizer.encode_batch(texts, specials=False), strict=True))
        return [
            instance
            for number, example in enumerate(examples)
            for instance in self._windows(formatter, number, example, *(encoded[text] for text in example.texts))
        ]

    def _windows(
        self, formatter: InputFormatter, number: int, example: SpanExample, question: Tokens, tokens: Tokens
    ) -> Iterator[PassageInstance]:
        windows = PassageWindows.of(
            question if formatter.joins_pairs else _NO_QUESTION,
            tokens,
            example.passage,
            formatter.pair,
            max_length=formatter.max_length,
            stride=self.config.stride or max(1, formatter.max_length // 3),  # 128 of 384, as in BERT
            null_position=formatter.null_position,
        )
        spans = [(start, start + len(answer.text)) for answer in example.answers if (start := answer.start) is not None]
        known = spans or not example.answers  # otherwise the passage words the answer differently
        question_tokens = list(zip(question.ids, question.offsets, strict=True))
        separate = [] if formatter.joins_pairs else [formatter.build_row(question_tokens, example.question)]
        targets = windows.target_positions(spans[0] if spans else None)
        for window, positions in zip(windows.windows, targets, strict=True):
            offsets = [(0, 0)] * len(window.ids)
            first = window.passage_start
            offsets[first : first + len(window.passage_tokens)] = [tokens.offsets[n] for n in window.passage_tokens]
            row = formatter.row(window.ids, window.segments, offsets, example.passage)
            label = positions if known else (IGNORED, IGNORED)
            yield PassageInstance(example=number, rows=[*separate, row], label=label, windows=windows)

    def head_scores(self, encoder: Encoder, encoded: Encoded, batch: Batch) -> Tensor:
        tokens, mask = self.features(encoded), batch.mask
        if self.question is not None:
            pooled = _normalize(self.features.pool_rows(encoder, encoded, tokens)[0::2])
            tokens, mask = _normalize(tokens[1::2]), mask[1::2]
            question = torch.tanh(self.question(pooled))[:, None].expand_as(tokens)
            tokens = torch.cat([tokens, question, tokens * question], -1)
        scores: Tensor = self.head(tokens)
        return scores.transpose(1, 2).masked_fill(~mask[:, None], float("-inf"))  # (instances, 2, T)

    def compare(self, scores: Tensor, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        return super().compare(scores.flatten(0, 1), labels.flatten())

    def decode(self, instances: Sequence[PassageInstance], scores: Sequence[Tensor]) -> AnswerPrediction:
        starts, ends = ([of_row[index].numpy() for of_row in scores] for index in (0, 1))
        answers = instances[0].windows.decode(starts, ends, max_tokens=self.config.longest_answer)
        all_scores = [answers.null_score, *(answer.score for answer in answers.best)]
        probabilities = tuple(torch.tensor(all_scores, dtype=torch.float64).softmax(-1).tolist()[1:])
        return AnswerPrediction(answers=answers, probabilities=probabilities, threshold=self.config.threshold)

    def score(self, predicted: Sequence[AnswerPrediction], gold: Sequence[SpanExample]) -> dict[str, float]:
        expected, language = [[answer.text for answer in example.answers] for example in gold], self.config.language
        found = score_answers(expected, [prediction.text for prediction in predicted], language)
        scores = {"exact": found.exact, "f1": found.f1, "best_f1": found.f1, "threshold": self.config.threshold}
        if not all(expected):  # with unanswerable questions the threshold matters
            texts = [best[0].text if (best := prediction.answers.best) else "" for prediction in predicted]
            each = [score_answer(gold, text, language).f1 for gold, text in zip(expected, texts, strict=True)]
            margins = [max(prediction.answers.margin, ALWAYS_ANSWER) for prediction in predicted]
            threshold, best_f1 = best_threshold(margins, each, [bool(answers) for answers in expected])
            scores |= {"best_f1": best_f1, "threshold": threshold}
        return scores


def _normalize(vectors: Tensor) -> Tensor:
    """Bring vectors to one scale: products of small ones are too small to be trained on."""
    return F.layer_norm(vectors, vectors.shape[-1:])


SPEC = TaskSpec(
    kind="span",
    display_name="extractive question answering",
    Example=SpanExample,
    Config=ExtractiveQaConfig,
    Head=ExtractiveQa,
    metric=always("f1"),
    use="question_answering",
    endpoint="answer",
)
