"""The ablation: ways to credit children, and simpler training, at the same budget of sampled tokens."""
