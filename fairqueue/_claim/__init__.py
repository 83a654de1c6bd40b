"""Claims, leases and what a process tells of itself, for each shard and for all."""
