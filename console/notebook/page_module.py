"""The page's scripts and styles as one JavaScript module, which a notebook loads without any request.

A notebook loads one module for a widget, in which imports by relative paths fail. So the module contains the texts of
the page's files, and makes URLs by which they import each other.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Final

_ENTRY: Final = "widget.js"
_STYLES: Final = ("vendor/uPlot.css", "page.css", "graph.css")
_CLASSIC: Final = "vendor/uPlot.js"
"""A script that is not a module: it defines one global name."""

_IMPORTED = re.compile(r' from "\./([^"]+)";')
_MODULE: Final = """
const files = %s;
const addresses = {};
function address(name) {
  const text = () => files[name].replace(/ from "\\.\\/([^"]+)";/g, (_, other) => ` from "${address(other)}";`);
  return (addresses[name] ??= URL.createObjectURL(new Blob([text()], { type: "text/javascript" })));
}
await import(address("%s"));
const { widget } = await import(address("%s"));
for (const each of Object.values(addresses)) URL.revokeObjectURL(each);
export default widget(%s.map((name) => files[name]).join("\\n"));
"""


@cache
def page_module() -> str:
    """Return the module, with ``render`` in its default export, as anywidget expects."""
    texts = {name: _text(name) for name in (*_STYLES, _CLASSIC, *_scripts(_ENTRY))}
    texts[_CLASSIC] += "\nwindow.uPlot ??= uPlot;\n"
    return _MODULE % (json.dumps(texts), _CLASSIC, _ENTRY, json.dumps(_STYLES))


def _text(name: str) -> str:
    return files("tidewheel.console.page").joinpath("files", name).read_text(encoding="utf-8")


def _scripts(entry: str) -> list[str]:
    found = [entry]
    for name in found:
        found += [other for other in dict.fromkeys(_IMPORTED.findall(_text(name))) if other not in found]
    return found
