"""Training in the page: kernels, tensors, layers, tasks and the laboratory, with torch's side of each."""
