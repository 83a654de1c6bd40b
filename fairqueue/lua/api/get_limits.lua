-- Limits of a workspace, a task, a queue, of all workspaces by default, or of the total, by source.
-- ARGV now scope name
-- ROUTE scope
-- RETURNS {source, text, "time process", ...}: what counts more comes later; the last is empty
-- where it is not known
-- WRITES nothing
local _, scope, name = unpack(ARGV)

local sources, found = Limits.sources(scope, name), {}
for i = 1, #sources, 2 do
  local text = call('HGET', K.limits(), sources[i + 1])
  if text then
    insert(found, sources[i])
    insert(found, text)
    insert(found, call('HGET', K.stored_by(), sources[i + 1]) or '')
  end
end
return found
