-- Workspaces that move to another shard, since the number of shards changes. What one has goes page
-- by page: a page is read on the old shard (pages.lua), taken in by the new one (take_in.lua), and
-- then removed from the old one (drop_moved.lua), so a job is always on one of them. Each step may
-- be repeated. The limits come first, so that the new shard expects the workspace, and once more at
-- the end, when it begins there.
--   moved: workspace -> the shard that it has moved to, behind a > while it moves; '': the
--          process that moves them; '!': all have moved, also one that is not known here;
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

-- What a pause says while a workspace moves: what an operator has set, and then the move's own,
-- with the shard to which it goes.
function Moves.held(text, to)
  if find(text, 'moves=', 1, true) then return text end
  return (text ~= '' and text .. ' ' or '') .. 'paused=' .. now_text .. ' moves=' .. to
end

function Moves.not_held(text)
  return (string.gsub(text, ' ?paused=%S+ moves=%S+$', ''))
end

-- Lift it; what an operator has set holds again, since when that was.
function Moves.lift(name)
  local field = Moves.field('pause', name)
  local stamp, text = call('HGET', K.stored_by(), field), Moves.text(field)
  if not find(text, 'moves=', 1, true) then return end
  text = Moves.not_held(text)
  Limits.put(field, text)
  if stamp and text ~= '' then call('HSET', K.stored_by(), field, stamp) end
  Settle.workspace(Moves.workspace(name))
end

-- Whether workspaces move at all: a process that was stopped meanwhile may come too late.
function Moves.are_running()
  return call('HEXISTS', K.limits(), 'moves') == 1
end

-- Let publishes ask from now on whether their workspace lives elsewhere, for its parent.
function Moves.let_all_through()
  Shard.load().spread = ' spread ' -- so that requests ask, too
  call('HSET', K.limits(), 'forwards', 1)
  call('HDEL', K.tasks(), '#plain') -- see publish.lua
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
