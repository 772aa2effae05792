"""What does a model say about rows? One file for each kind of model; `opening` finds the one for what a caller gave."""
