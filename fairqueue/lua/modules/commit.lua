-- The end of a call that changes records: they are written once, after an error, too.

function Commit.run(operation)
  local reply
  local done, said = pcall(function()
    reply = operation()
    Wakeups.settle_tokens()
    Records.save()
  end)
  if not done then Rescue.after(said) end
  return reply
end
