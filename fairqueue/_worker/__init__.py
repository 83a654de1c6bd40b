"""What a worker's process does beside its jobs: renew leases, report failures."""
