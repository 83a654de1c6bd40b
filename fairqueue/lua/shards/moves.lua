-- Workspaces that move to another shard, since the number of shards changes. What one has goes page
-- by page: a page is read on the old shard (pages.lua), taken in by the new one (take_in.lua), and
-- then removed from the old one (drop_moved.lua), so a job is always on one of them. Each step may
-- be repeated. The new shard expects the workspace before the first page; its limits come last, and
-- it begins there.
--   moved: workspace -> the shard that it has moved to; `>3 since` while it moves there, `|3 since`
--          while its jobs end before that, `<3 since` while it comes: nothing starts meanwhile;
--          '': the process that moves them; '!': all have moved, also one that is not known here;
--          +workspace: it lives here, though its name says another shard; @workspace: it is a
--          parent, and stays here
--   item:  kind of id score size\nrecord
--     lane, returned, scheduled: a job of this queue, with its score of that sorted set
--     dead_letters, schedules, unique: a field of that hash of a workspace; the score of a letter
--     says when its notice is due
--     rest: its limits and what else is no record, in lines: what name value
--   '-': there is no queue, workspace, id or score
local WITH_LIMITS = { stored_by = true, shard = true }
Moves.SOURCES = { 'live', 'provider', 'pause' }

-- Let nothing of a workspace start. mark: how it moves, to or from which shard.
function Moves.hold(name, mark, shard)
  local since = match(call('HGET', K.moved(), name) or '', ' (%S+)$') or now_text
  call('HSET', K.moved(), name, mark .. shard .. ' ' .. since)
end

-- Whether workspaces move at all: a process that was stopped meanwhile may come too late.
function Moves.are_running()
  return call('HEXISTS', K.limits(), 'moves') == 1
end

-- It is held, so one without a record would be looked for by its keys, which may take long.
function Moves.workspace(name)
  local ws = Records.workspace(name)
  if not ws.raw then
    ws.is_unread = call('ZSCORE', K.timer(), name)
      or call('EXISTS', K.slots(name)) == 1
  end
  return ws
end

function Moves.field(source, name)
  return source .. ':workspace:' .. name
end

-- Whether anything of a workspace is here: a record, which it has while it has jobs, debts or a
-- rate that counts, or the timer of one that was lost; other keys; limits and pauses, but for those
-- of one source.
function Moves.is_known(name, but)
  for _, source in ipairs(Moves.SOURCES) do
    local field = Moves.field(source, name)
    if source ~= but and call('HEXISTS', K.limits(), field) == 1 then return true end
  end
  for _, task in ipairs(call('HKEYS', K.indexed_tasks())) do
    local tat = call('ZSCORE', K.task_rates(), name .. ':' .. task)
    if tat and tonumber(tat) > now then return true end
  end
  return call('HEXISTS', K.workspaces(), name) == 1 or call('ZSCORE', K.timer(), name)
    or call('EXISTS', K.scheduled(name), K.slots(name), K.dead_letters(name),
      K.dead_letters('!' .. name), K.schedules(name), K.requests_of_workspace(name)) > 0
end

-- Store limits, and what goes with them: in lines a kind of hash, its field, and the text; without
-- a text the field goes.
function Moves.put(lines)
  for kind, field, text in gmatch(lines, '([%l_]+) (%S*) ([^\n]*)\n') do
    if kind == 'limits' then Limits.put(field, text)
    elseif not WITH_LIMITS[kind] then -- of the workspace itself
    elseif text == '' then call('HDEL', K[kind](), field)
    else call('HSET', K[kind](), field, text) end
  end
end
