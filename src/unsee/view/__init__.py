"""The viewer: runs in a browser on this machine alone, to be compared and tried."""
