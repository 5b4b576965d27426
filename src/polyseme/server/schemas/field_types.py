"""Field types of requests and responses, with their limits."""

from typing import Annotated

from pydantic import Field

MAX_CHARACTERS = 20_000
"""Of one text; longer texts are sent in parts."""

MAX_TEXTS = 2048
"""Of one request, as in OpenAI's API."""

Text = Annotated[str, Field(max_length=MAX_CHARACTERS)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=MAX_TEXTS)]
ShortText = Annotated[str, Field(max_length=2_000)]
NonEmptyText = Annotated[str, Field(min_length=1, max_length=2_000)]
Passage = Annotated[str, Field(min_length=1, max_length=MAX_CHARACTERS)]
Word = Annotated[str, Field(min_length=1, max_length=200)]
TextPairs = Annotated[
    list[Annotated[list[Text], Field(min_length=2, max_length=2)]], Field(min_length=1, max_length=1024)
]
TopK = Annotated[int, Field(ge=1, le=100)]
Probability = Annotated[float, Field(ge=0, le=1.000001)]
