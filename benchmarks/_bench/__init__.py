"""What every benchmark needs: a server, two sides that take turns, and a table of results."""
