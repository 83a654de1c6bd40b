-- Set quotas of limits that are wider than a shard, each only if its epoch is newer.
-- ARGV now changes
-- RETURNS for each "n tokens": its quota or what is used, whichever is more, and, of a rate, the
-- tokens that do not fit any more; "-1 0": there is a newer one
-- changes: "limit quota epoch whole tokens departures" of each, one in a line. Where there are more
-- departures than its caller has seen, a quota is not raised
local _, changes = unpack(ARGV)
local replies, settled, has_places = {}, {}, false

local function set(what, scope, name, quota, epoch, whole, tokens, seen)
  local own_name, taken = scope == 'task' and Shard.task_number(name) or name, 0
  local before, known, departures = Quotas.of(what, scope, own_name)
  if tonumber(epoch) < tonumber(known) then return -1, 0 end
  if tonumber(epoch) == tonumber(known) then
    quota = before
  else
    local limit = concat({ what, scope, own_name }, ':')
    if seen ~= departures then quota = min(quota, before) end
    if what == 'rate' then taken = RateQuotas.set(own_name, quota, epoch, max(1, whole), tokens)
    else Quotas.put(limit, quota, epoch, departures) end
    if what == 'concurrency' or what == 'rate' then
      insert(settled, { scope = scope, name = own_name })
    end
    has_places = has_places or what == 'requests'
  end
  return max(tonumber(quota), Quotas.used(what, scope, own_name)), taken
end

for limit, quota, epoch, whole, tokens, seen in
  gmatch(changes, '(%S+) (%d+) (%d+) (%d+) (%S+) (%d+)\n') do
  local what, scope, name = Quotas.parse(limit)
  local has, taken = set(what, scope, name, tonumber(quota), epoch, tonumber(whole),
    tonumber(tokens), tonumber(seen))
  insert(replies, int(has) .. ' ' .. num(taken))
end
for _, each in ipairs(settled) do
  if each.scope == 'task' then Settle.shared_limit('/' .. each.name)
  elseif each.scope == 'queue' then S.touched_queues[each.name] = true
  else Wakeups.touch_all() end
end
if has_places then Requests.start_waiting() end
return replies
