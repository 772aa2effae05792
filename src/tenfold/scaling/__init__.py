"""How does it scale? What was measured, laws that explain it, and what they say about machines that are not here."""
