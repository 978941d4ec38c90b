"""The live page, the terminal, the notebook and the metrics: subscribers of what jobs publish of themselves."""
