-- Ids that ended a moment ago, in two rotating sets, so that a repeated publish is no new job.
local WINDOW_SECONDS = 60 -- an id is known for at least this long
local this_window = (now - now % WINDOW_SECONDS) / WINDOW_SECONDS

function Ended.has(id)
  return call('SISMEMBER', K.ended(int(this_window)), id) == 1
    or call('SISMEMBER', K.ended(int(this_window - 1)), id) == 1
end

function Ended.add(id)
  local window, meta = int(this_window), Meta.load()
  call('SADD', K.ended(window), id)
  if meta.window == window then return end
  call('EXPIRE', K.ended(window), 3 * WINDOW_SECONDS)
  meta.window = window
end
