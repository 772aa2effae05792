"""What people call: one file per verb, each a short spine from arguments to results."""
