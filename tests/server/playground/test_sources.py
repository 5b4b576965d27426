"""The sources of the playground, without a browser."""

import json
import re
from importlib.resources import files

from polyseme.rendering import html as pages

WEB = files("polyseme.server") / "web"


def sources():
    return {
        path.name: path.read_text() for folder in (WEB, WEB / "views") for path in folder.iterdir() if path.is_file()
    }


def test_every_string_has_both_languages():
    table = re.findall(r'^  (\w+): \[\s*("(?:[^"\\]|\\.)*"),\s*("(?:[^"\\]|\\.)*")\],$', sources()["strings.js"], re.M)
    strings = {name: (json.loads(english), json.loads(chinese)) for name, english, chinese in table}
    assert len(strings) > 150
    for name, (english, chinese) in strings.items():
        assert english and chinese
        assert sorted(re.findall(r"\{\w+\}", english)) == sorted(re.findall(r"\{\w+\}", chinese)), name
    used = {name for text in sources().values() for name in re.findall(r'\bt\("(\w+)"', text)}
    assert used <= strings.keys()
    for view in (WEB / "views").iterdir():
        name = view.name.removesuffix(".js")
        assert {name, f"{name}About"} <= strings.keys()


def test_colours_equal_those_of_stand_alone_pages():
    style = sources()["style.css"]
    light, dark = pages.COLOURS, pages.DARK_COLOURS
    assert all(f"--colour-{number}: {colour};" in style for number, colour in enumerate(light))
    assert all(style.count(f"--colour-{number}: {colour};") == 2 for number, colour in enumerate(dark))


def test_no_text_becomes_markup():
    """The content security policy blocks scripts, but neither images nor forms."""
    for name, text in sources().items():
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", text), name
            assert len(text.splitlines()) < 300
        assert not re.search(r"https?://(?!www\.w3\.org)", text), name
