-- Drop what waits or is scheduled, of a queue, a workspace, a task, several or all; running jobs go on.
-- ARGV now queue workspace task cursor count most
-- RETURNS {cursor, dropped}; the cursor is empty when none is left
local _, queue, name, task_name, cursor, count, most = unpack(ARGV)
most = tonumber(most)

local task = task_name ~= '' and (call('HGET', K.tasks(), task_name) or 'none')
local function drop(ws, left)
  if task then return Pick.waiting(ws, queue, task, left) end
  return Drop.waiting(ws, queue, left)
end

local following_cursor, names = '0', { name }
if name == '' then
  names = {}
  local found, fields = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
  following_cursor = found
  for i = 1, #fields, 2 do insert(names, fields[i]) end
end

local dropped = 0
for _, one in ipairs(names) do
  if dropped < most then dropped = dropped + drop(Workspaces.of(one), most - dropped) end
end
if queue ~= '' then Wake.touched[queue] = true end
Wake.all()
Save.all()
if dropped >= most then return { cursor, dropped } end
return { following_cursor ~= '0' and following_cursor or '', dropped }
