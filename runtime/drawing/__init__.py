"""Drawings of a dataflow that is being described: as text, for Mermaid, and as a picture in a notebook."""

from tidewheel.runtime.drawing.mermaid import mermaid_of
from tidewheel.runtime.drawing.picture import picture_of
from tidewheel.runtime.drawing.text import text_of

__all__ = ["mermaid_of", "picture_of", "text_of"]
