"""What it means: pictures of what a call has found. Drawn from values, without a screen."""
