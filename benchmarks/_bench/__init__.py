"""What every benchmark needs: a server, sides that take turns, and a table."""
