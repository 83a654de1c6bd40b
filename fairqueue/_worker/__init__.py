"""What a worker's process does beside its jobs: renew leases, notice silence, report failures."""
