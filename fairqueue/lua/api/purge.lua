-- Drop what waits or is scheduled, by queue, workspace and task; running jobs go on.
-- First come the lanes; what is left of a queue, and any job of a task, is found by its record.
-- ARGV now queue workspace task cursor count most each cancelled lists
-- ROUTE workspace MERGE concat
-- RETURNS {cursor, dropped}; the cursor is empty when none is left; of a task: on one queue
-- most, each: jobs of one call, and of one workspace in it
-- lists: of another system, to which the jobs are handed over, see removal.lua
local _, queue, name, task, cursor, count, most, each, cancelled, lists = unpack(ARGV)
most, each = tonumber(most), tonumber(each)
S.leaves_notices = cancelled == '1'
Removal.read_lists(lists)
if name ~= '' then Shard.refuse_moved(name) end

local function from_lanes()
  local following_cursor, names = '0', { name }
  if name == '' then
    names = {}
    local found, fields = unpack(call('HSCAN', K.workspaces(), cursor, 'COUNT', count))
    following_cursor = found
    for i = 1, #fields, 2 do insert(names, fields[i]) end
    table.sort(names) -- those that are settled stand in this order, and a hash has none
  end
  local dropped = 0
  for _, one in ipairs(names) do
    if dropped < most and not Shard.is_spent() then
      local its_most = min(each, most - dropped)
      dropped = dropped + Removal.waiting(Records.workspace(one), queue, its_most)
    end
  end
  if dropped >= most or Shard.is_spent() then return { cursor, dropped } end
  if following_cursor ~= '0' then return { following_cursor, dropped } end
  return { queue ~= '' and Lanes.depth_of(queue) > 0 and 'jobs:0' or '', dropped }
end

local function from_records(at, task)
  local following_cursor, dropped =
    Removal.page(queue, at, count, name ~= '' and name or nil, task)
  return { following_cursor ~= '0' and 'jobs:' .. following_cursor or '', dropped }
end

if queue ~= '' then S.touched_queues[queue] = true end
task = task ~= '' and task or nil
local at = match(cursor, '^jobs:(%d+)$') or task and '0'
if at then return from_records(at, task) end
return from_lanes()
