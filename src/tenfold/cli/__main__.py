"""`python -m tenfold.cli`: the same as `tenfold`, with this interpreter."""

from tenfold.cli import main

main()
