"""Where data comes from and where it goes: sources that are read in slices, and sets that `tenfold.prepare` has made.

A source is a file here (`arrays`, `npy`, `parquet`, ...); `opening` finds the one for what a caller gave. Nothing here
knows of engines: a source is pickled into workers and opens its files there itself.
"""
