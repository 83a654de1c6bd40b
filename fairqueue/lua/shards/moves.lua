-- Workspaces that move to another shard, since the number of shards changes. What one has goes page
-- by page: a page is read on the old shard (pages.lua), taken in by the new one (take_in.lua), and
-- then removed from the old one (drop_moved.lua), so a job is always on one of them. Each step may
-- be repeated. The limits come first, so that the new shard expects the workspace, and once more at
-- the end, when it begins there.
--   moved: workspace -> the shard that it has moved to; `>3 since` while it moves there, `|3 since`
--          while its jobs end before that, `<3 since` while it comes: nothing starts meanwhile;
--          '': the process that moves them; '!': all have moved, also one that is not known here;
--          +workspace: it lives here, though its name says another shard; @workspace: it is a
--          parent, and stays here
--   item:  kind queue id score size\nkey\nrecord
--     lane, returned, scheduled: a job, with its score of that sorted set
--     steps: finished steps
--     dead, cancelled: a letter, or notice; the score says when its notice is due
--     schedule: a schedule, with its name as the id
--     key: a unique key whose job has ended
--     rest, end: limits and what else has no queue, in lines: what name value
--     key, of each: until when it counts, and its field of `unique`, or nothing
--   '-': there is no queue, id or score
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

-- Let publishes ask from now on whether their workspace lives elsewhere, for its parent.
function Moves.let_all_through()
  Shard.load().spread = ' spread ' -- so that requests ask, too
  call('HSET', K.limits(), 'forwards', 1)
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

function Moves.text(field)
  return call('HGET', K.limits(), field) or ''
end
