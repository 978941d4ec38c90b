"""What runs on the kernels of Arrow: expressions, schemas, groups."""
