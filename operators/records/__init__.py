"""What becomes of single records and batches."""
