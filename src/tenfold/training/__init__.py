"""One model on many workers: how it is divided among them, what they tell each other, and what they survive."""
