-- What happened to jobs, by minute for three hours and by hour for eight days, for charts.
--   field: workspace queue task
--   value, packed: starts ends failures dead expiries rejections, worker-milliseconds, and starts
--   by how long their jobs had waited, see fairqueue/_activity.py; with a byte more, since Redis
--   searches a hash of values up to 64 bytes from its beginning
-- Processes add up what they see, and send it now and then; only what no process sees is added here
-- as it happens. A '*', which no encoded name has, stands for several, where there is too much:
-- of what is least, first workspaces are joined, then tasks, then queues.
local KEPT = { [60] = 10800, [3600] = 691200 } -- seconds of a window, and for how long it is kept
local MOST = 200 -- fields of a window
local COUNTS, BYTES, FORMAT = 15, 65, '<I4I4I4I4I4I4dI4I4I4I4I4I4I4I4x'
local DEAD, EXPIRIES = 4, 5

function Activity.window(seconds)
  return (now - now % seconds) / seconds
end

-- The sum of two values; one may be none, or damaged.
function Activity.sum(one, other)
  if not one or #one ~= BYTES then return other end
  local a, b, c, d, e, f, g, h, i, j, k, l, m, n, o = struct.unpack(FORMAT, one)
  local A, B, C, D, E, F, G, H, I, J, K, L, M, N, O = struct.unpack(FORMAT, other)
  return struct.pack(FORMAT, a + A, b + B, c + C, d + D, e + E, f + F, g + G, h + H, i + I, j + J,
    k + K, l + L, m + M, n + N, o + O)
end

-- Add values to the window of this time, a minute or an hour, given in seconds.
function Activity.add(seconds, names, values)
  local key = K.activity(int(seconds), int(Activity.window(seconds)))
  local known, words = call('HMGET', key, unpack(names)), {}
  for n, name in ipairs(names) do
    words[2 * n - 1], words[2 * n] = name, Activity.sum(known[n], values[n])
  end
  if call('HSET', key, unpack(words)) == 0 then return end
  local done, said = pcall(call, 'EXPIRE', key, KEPT[seconds] + seconds)
  if not done then
    call('UNLINK', key) -- it would stay for ever
    error(said, 0)
  end
  if call('HLEN', key) > MOST then Activity.join(seconds, key) end
end

-- The rows of a window in one text, as processes send them; what is damaged is left out.
function Activity.rows(seconds, window)
  local found, rows = call('HGETALL', K.activity(seconds, int(window))), {}
  for i = 1, #found, 2 do
    if #found[i + 1] == BYTES and match(found[i], '^%S+ %S+ %S+$') then
      insert(rows, found[i] .. '\n' .. found[i + 1])
    end
  end
  return concat(rows)
end

-- Join the lesser half, by what started or was rejected.
function Activity.join(seconds, key)
  local found, names, value_of, size_of = call('HGETALL', key), {}, {}, {}
  for i = 1, #found, 2 do
    local name, value = found[i], found[i + 1]
    if #value ~= BYTES then value = Activity.only(0) end
    local starts, rejections = struct.unpack('<I4xxxxxxxxxxxxxxxxI4', value)
    insert(names, name)
    value_of[name], size_of[name] = value, starts + rejections
  end
  table.sort(names, function(one, other)
    local here, there = size_of[one], size_of[other]
    return here > there or here == there and one < other
  end)
  local gone, wholes, values = {}, {}, {}
  for n = MOST / 2 + 1, #names do
    local whole = Activity.joined(names[n])
    if not values[whole] then insert(wholes, whole) end
    values[whole] = Activity.sum(values[whole], value_of[names[n]])
    insert(gone, names[n])
  end
  call('HDEL', key, unpack(gone))
  local sums = {}
  for n, whole in ipairs(wholes) do sums[n] = values[whole] end
  Activity.add(seconds, wholes, sums)
end

function Activity.joined(name)
  local workspace, queue, task = match(name, '^(%S+) (%S+) (%S+)$')
  if not workspace then return '* * *' end
  if workspace ~= '*' then return '* ' .. queue .. ' ' .. task end
  return '* ' .. (task ~= '*' and queue or '*') .. ' *'
end

-- These figures are for people: they never stop what they count.
function Activity.died(workspace, queue, task)
  Activity.one(workspace .. ' ' .. queue .. ' ' .. task, DEAD)
end

function Activity.expired(l)
  Activity.one(l.workspace .. ' ' .. l.queue .. ' ' .. l.task, EXPIRIES)
end

function Activity.one(name, what)
  for seconds in pairs(KEPT) do pcall(Activity.add, seconds, { name }, { Activity.only(what) }) end
end

-- A value of which only this count is 1.
function Activity.only(what)
  local counts = {}
  for n = 1, COUNTS do counts[n] = n == what and 1 or 0 end
  return struct.pack(FORMAT, unpack(counts))
end
