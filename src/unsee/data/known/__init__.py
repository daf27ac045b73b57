"""Published data sets, one file each: what must come out, to the byte, and the ways to it."""
