-- Each owner numbers its calls; its last number and reply are kept, so a repeated call changes
-- nothing. In the shard's hash:
--   owner:name -> until number, packed; reply
--     until: in seconds; from then on it counts no more, and the rebuild takes it away
local KEPT_LEASES = 10 -- a record lives this many leases
local HEAD = '<dd'

-- The kept reply if this number was answered before, false if it is new, nil if it is too late.
function Idempotency.answered(owner, number)
  local text = Shard.field('owner:' .. owner)
  local until_then, kept = unpacked(HEAD, text)
  number = number + 0 -- cheaper than tonumber
  if not kept or number > kept or not (now < until_then and until_then < LAST_TIME)
    or not (kept < NUMBERS_END) then return false end -- the last two: it is damaged
  if number == kept then return text:sub(17) end
  return nil
end

function Idempotency.keep(owner, number, reply, lease_seconds)
  local until_then = now + lease_seconds * KEPT_LEASES
  Shard.put('owner:' .. owner, struct.pack(HEAD, until_then, number + 0) .. reply)
end

-- What the owner of a lease learns. Few and flat values: reading each costs the client more than a
-- command; the job's record has the rest.
function Idempotency.told(l)
  local more = l.early and 'early' or Permits.needed(l.queue, l.task)
  return l.fence .. ' ' .. l.id .. ' ' .. l.queue .. ' ' .. int(l.deliveries) .. ' '
    .. (l.since or '-') .. (more and ' ' .. more or '')
end

-- The reply to a claim that was answered before.
function Idempotency.repeated(kept, owner)
  local lost, wait, fences = match(kept, '^([^|]*)|([^|]*)|(.*)$')
  local reply = { 1, lost, wait }
  for fence in gmatch(fences, '%d+') do
    local l = Leases.held(fence, owner)
    local record = l and Jobs.read(l.queue, l.id) -- none: a call that ended the job has failed
    if record then
      insert(reply, Idempotency.told(l))
      insert(reply, record)
    end
  end
  return reply
end
