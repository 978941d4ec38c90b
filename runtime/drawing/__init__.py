"""Drawings of a dataflow: as text, for Mermaid, and as a picture in a notebook."""
