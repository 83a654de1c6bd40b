-- The end of a call that changes records: they are written once. Redis takes nothing back where a
-- script fails in the middle, so what it had in its hands goes back to where it stood, and what it
-- changed is saved.

function Commit.run(operation)
  local done, reply = pcall(operation)
  local said = not done and reply
  if done and (S.meta or S.has_read or offset > 0) then done, said = pcall(Commit.write) end
  if not done then Commit.after(said) end
  return reply
end

function Commit.write()
  Wakeups.settle_tokens()
  Records.save()
end

-- Save what can be saved, each by itself. The next claims settle every workspace once more: what
-- has failed here may have left one where it should not stand.
function Commit.save()
  pcall(Tick.beat) -- what waits now waits by this time, so it must not go back
  Shard.load().drain = '0'
  for _, ws in pairs(S.workspaces) do pcall(Rebuild.stands, ws) end
  pcall(Wakeups.settle_tokens)
  pcall(Shard.save_aside)
  for _, ws in pairs(S.workspaces) do
    if ws.is_unread or not pcall(Records.save_workspace, ws) then pcall(Records.find_later, ws) end
  end
  for _, node in pairs(S.nodes) do pcall(Records.save_node, node) end
  for _, shared in pairs(S.shared_limits) do pcall(SharedLimitRecords.save, shared) end
  pcall(Shard.save)
end

-- The script has failed: it changes as little as it can, is saved, and the error is raised.
function Commit.after(said)
  RebuildJobs.undo(true)
  RebuildJobs.settle(true)
  pcall(RebuildJobs.go_on, said)
  Commit.save()
  error(said, 0)
end
