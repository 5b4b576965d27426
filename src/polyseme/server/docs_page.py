"""API documentation as a stand-alone page, rendered from the OpenAPI document."""

import json
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from polyseme.rendering.html import page

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = (
    "pre { background: var(--panel); padding: .6rem; overflow-x: auto; } details { margin: .5rem 0; } "
    "code { overflow-wrap: anywhere; }"
)
_BOUNDS = {
    "minimum": "≥",
    "exclusiveMinimum": ">",
    "maximum": "≤",
    "exclusiveMaximum": "<",
    "minLength": "characters ≥",
    "maxLength": "characters ≤",
    "minItems": "items ≥",
    "maxItems": "items ≤",
}


def docs_page(document: dict[str, Any], url: str, models: Mapping[str, str] | None) -> str:
    """Every endpoint with an example, a curl command and its fields.

    Examples name the served models that support the endpoints, by path; without them, what to write in their place.
    """
    key = " -H 'Authorization: Bearer KEY'" if models is None else ""

    def describe(path: str, operation: dict[str, Any]) -> Iterator[str]:
        """A curl command and, for requests with a body, its fields."""
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        if body:
            if models is not None and path not in models:
                yield '<p class="faint">No served model supports this endpoint.</p>'
            example = {**body["example"], "model": (models or {}).get(path, "MODEL")}
            quoted = json.dumps(example, ensure_ascii=False).replace("'", "'\\''")
            command = f"curl {url}{path}{key} -H 'Content-Type: application/json' \\\n  -d '{quoted}'"
            yield f"<pre>{escape(command)}</pre>"
            yield _fields(document["components"]["schemas"][body["schema"]["$ref"].rsplit("/", 1)[-1]])
        elif "{" not in path:
            yield f"<pre>{escape(f'curl {url}{path}{key}')}</pre>"

    parts = [
        f"<h1>{escape(document['info']['title'])}</h1>",
        f"<p>{escape(document['info'].get('description', ''))}</p>",
        '<p class="faint">OpenAPI document: <a href="/openapi.json">/openapi.json</a>. OpenAI\'s client: '
        f'<code>OpenAI(base_url="{escape(url)}/v1", api_key="…")</code>. Errors are '
        "<code>{&quot;error&quot;: {&quot;message&quot;, &quot;type&quot;, &quot;code&quot;}}</code>.</p>",
    ]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            heading = f"<h2><code>{method.upper()} {escape(path)}</code></h2>"
            parts += [heading, f"<p>{escape(operation['summary'])}</p>", *describe(path, operation)]
    return page(f"{document['info']['title']}: API", "\n".join(parts), style=_STYLE)


def _fields(schema: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(name)}</code></td><td>{escape(_type(field))}</td>"
        f"<td>{'required' if name in schema.get('required', ()) else escape(json.dumps(field.get('default')))}</td>"
        f"<td>{escape(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    ]
    head = "<tr><th>field</th><th>type</th><th>default</th><th></th></tr>"
    return f'<details><summary>fields</summary><div class="wide"><table>{head}{"".join(rows)}</table></div></details>'


def _type(field: dict[str, Any]) -> str:
    """The type and bounds of a field in a few words."""
    if "anyOf" in field:
        kinds = dict.fromkeys(_type(part) for part in field["anyOf"] if part.get("type") != "null")
        return " or ".join(kinds) or "null"
    if "enum" in field or "const" in field:
        return " or ".join(json.dumps(value) for value in field.get("enum", [field.get("const")]))
    bounds = [f"{sign} {field[key]}" for key, sign in _BOUNDS.items() if key in field]
    items = f" of {_type(field['items'])}" if "items" in field else ""
    return " ".join([field.get("type", "value") + items, *([f"({', '.join(bounds)})"] if bounds else [])])
