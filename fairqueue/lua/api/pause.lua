-- Pause, drain or resume a workspace, a queue, a task or everything; running jobs finish.
-- ARGV now scope name how by
-- ROUTE scope MERGE any
-- RETURNS what it was before; empty: neither paused nor draining; {-2, task} if the leases of a
-- task must be indexed before
local _, scope, name, how, by = unpack(ARGV)
S.stored_by = by

if scope == 'task' then Tasks.name(name) end
local missing = scope == 'task' and how == 'paused' and SharedLimits.not_indexed({ name }) or {}
if #missing > 0 then return { -2, name } end
local field = concat({ 'pause', scope, name }, ':')
local text = call('HGET', K.limits(), field) or ''
if scope == 'workspace' then Shard.refuse_moved(name) end
local before = match(text, '^%a*')
if how == '' then Limits.put(field, '') end
if how ~= '' and how ~= before then Limits.put(field, how .. '=' .. now_text) end

if scope == 'workspace' then
  local ws = Records.workspace(name)
  ws.is_unread = not ws.raw or ws.is_unread -- its record may have been lost while it was paused
  Settle.workspace(ws)
end
if scope == 'task' then Shard.load().drain = '0' end
if scope == 'queue' then S.touched_queues[name] = true end
if scope == 'total' then Wakeups.touch_all() end

-- Flows keep their places in a queue that is paused; from now on they wait for a worker again.
if before == 'paused' and how ~= 'paused' and (scope == 'queue' or scope == 'total') then
  for queue in pairs(S.touched_queues) do
    local node = Records.node(queue)
    if not node.is_new then node.resumed, node.dirty = now_text, true end
  end
end
return before
