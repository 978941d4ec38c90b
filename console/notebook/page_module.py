"""The page's scripts and styles as one module of JavaScript, which a notebook loads without any request.

A notebook gives a widget one module, whose imports by relative paths lead nowhere. So the module has the texts of the
page's files. It makes an address of each for this browser, and has the files import each other by these.
"""

import json
import re
from functools import cache
from importlib.resources import files
from typing import Final

_ENTRY: Final = "widget.js"
_STYLES: Final = ("vendor/uPlot.css", "page.css", "graph.css")
_CLASSIC: Final = "vendor/uPlot.js"
"""A script that is no module: it makes one global name."""

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
    """Return the module. Its default export has ``render``, as anywidget expects it."""
    texts = {name: _text(name) for name in (*_STYLES, _CLASSIC, *_scripts(_ENTRY))}
    texts[_CLASSIC] += "\nwindow.uPlot ??= uPlot;\n"
    return _MODULE % (json.dumps(texts), _CLASSIC, _ENTRY, json.dumps(_STYLES))


def _text(name: str) -> str:
    return files("tidewheel.console.page").joinpath("files", name).read_text(encoding="utf-8")


def _scripts(entry: str) -> list[str]:
    """Return the names of a script and of all that it imports."""
    found = [entry]
    for name in found:
        found += [other for other in dict.fromkeys(_IMPORTED.findall(_text(name))) if other not in found]
    return found
