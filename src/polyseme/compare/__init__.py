"""Which representation to use: families trained on one text with one budget, and measured on the same scales."""

import sys
from types import ModuleType
from typing import Any


class _Package(ModuleType):
    """Importing a part of this package puts the package where `polyseme.compare(...)` looks for a function."""

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        from polyseme.compare.race import compare

        return compare(*arguments, **settings)


sys.modules[__name__].__class__ = _Package
