"""Training in the page: kernels, tensors, layers, tasks, the laboratory, and torch beside it."""
