"""What happens to a job before the store has it: its arguments, workspace, ids and waits."""
