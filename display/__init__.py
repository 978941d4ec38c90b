"""Short texts and HTML: numbers, tables, cells of a notebook."""
