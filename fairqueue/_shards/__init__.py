"""On which shard a workspace lives, and from which shard a worker claims next."""
