"""What the gradients in a graph are made of, and what must not become of them."""
