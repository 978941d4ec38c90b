"""Live views in the cells of a notebook: of a job, an explanation, or a chart of a topic."""
