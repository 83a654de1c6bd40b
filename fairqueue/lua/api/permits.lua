-- Renew, free and take permits of limits wider than a shard whose home this shard is.
-- ARGV now seconds renewed changes
-- RETURNS for each change "taken wait others opened adopted": how many were taken, for how long one
-- that was refused waits at most, 1 if others wait, shards on which its task may go on, and the
-- permits of jobs that may have ended meanwhile
-- renewed: "limit permit,permit,..." of each limit, one in a line; one that was lost is put back
-- changes: "limit turn freed,... taken,..." of each, one in a line; -: none. `!` before one that is
-- freed: no job has started by it
local _, seconds, renewed, changes = unpack(ARGV)
seconds = tonumber(seconds)

local function listed(text)
  local found = {}
  for permit in gmatch(text, '[^,]+') do
    if permit ~= '-' then insert(found, permit) end
  end
  return found
end

Tick.beat()
for limit, permits in gmatch(renewed, '(%S+) (%S+)\n') do
  Permits.put(Permits.of(limit), listed(permits), seconds)
end
for limit, freed in gmatch(changes, '(%S+) %S+ (%S+) %S+\n') do
  if freed ~= '-' then Permits.free(Permits.of(limit), listed(freed), seconds) end
end
local replies = {}
for limit, turn, taken in gmatch(changes, '(%S+) (%S+) %S+ (%S+)\n') do
  local p = Permits.of(limit)
  Permits.drop_ended(p, seconds)
  local n, wait, adopted = 0, 0, ''
  if taken ~= '-' then n, wait = Permits.take(p, turn, listed(taken), seconds) end
  if wait > 0 then adopted = Permits.adopted(p) end
  local opened = Permits.wake(p)
  Permits.save(p, seconds)
  insert(replies, concat({ int(n), num(wait), Permits.has_others(p, turn), opened, adopted }, ' '))
end
return replies
