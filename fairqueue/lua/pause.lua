-- Pause, drain or resume a workspace, a queue, a task or everything; running jobs finish.
-- ARGV now scope name how
-- RETURNS how it stood before, empty for neither
local _, scope, name, how = unpack(ARGV)

if scope == 'task' then name = Tasks.number(name) end
local field = concat({ 'pause', scope, name }, ':')
local before = match(call('HGET', K.limits(), field) or '', '^%a*')
if how == '' then call('HDEL', K.limits(), field) end
if how ~= '' and how ~= before then call('HSET', K.limits(), field, how .. '=' .. now_text) end
if how == 'draining' then call('HSET', K.limits(), 'capacity', 1) end

if scope == 'workspace' then Settle.workspace(Workspaces.of(name)) end
if scope == 'task' then
  Caps.mark_tasks()
  Shared.change_task(name)
  Meta.load().drain = '0'
end
if scope == 'queue' then Wake.touched[name] = true end
if scope == 'total' then Wake.touch_all() end
Wake.all()
Save.all()
return before
