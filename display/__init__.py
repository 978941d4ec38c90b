"""Small pieces of text and HTML: numbers as people read them, tables, cells of a notebook."""
