"""Drawings of a dataflow that is being described: as text, for Mermaid, and as a picture in a notebook."""
