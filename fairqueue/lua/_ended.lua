-- Ids that ended a moment ago, in two rotating sets, so that a repeated publish is no new job.
local WINDOW_SECONDS = 60 -- an id is known for at least this long

function Ended.window(ago)
  return int((now - now % WINDOW_SECONDS) / WINDOW_SECONDS - ago)
end

function Ended.has(id)
  return call('SISMEMBER', K.ended(Ended.window(0)), id) == 1
    or call('SISMEMBER', K.ended(Ended.window(1)), id) == 1
end

function Ended.add(id)
  local window, meta = Ended.window(0), Meta.load()
  call('SADD', K.ended(window), id)
  if meta.window == window then return end
  call('EXPIRE', K.ended(window), 3 * WINDOW_SECONDS)
  meta.window = window
end
