"""Live views in the cells of a notebook: a job, an explanation, and a chart of a topic."""
