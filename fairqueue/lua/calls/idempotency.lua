-- Each owner numbers its calls; its last number and reply are kept, so a repeated call changes
-- nothing.
local KEPT_LEASES = 10 -- a record lives this many leases

-- The kept reply if this number was answered before, false if it is new, nil if it is too late.
function Idempotency.answered(owner, number)
  local kept_number, reply = match(call('GET', K.claimer(owner)) or '0|', '^(%d+)|(.*)$')
  if kept_number == number then return reply end
  local is_later = #kept_number == #number and kept_number > number or #kept_number > #number
  if is_later then return nil end
  return false
end

function Idempotency.keep(owner, number, reply, lease_seconds)
  return call('SET', K.claimer(owner), number .. '|' .. reply, 'PX',
    format('%.0f', lease_seconds * KEPT_LEASES * 1000))
end

-- One numbered operation on one lease of the owner: 1 done, 0 lost, -1 too late.
function Idempotency.once(owner, number, lease_seconds, fence, act)
  local reply = Idempotency.answered(owner, number)
  if reply == nil then return -1 end
  if not reply then
    local l = Leases.held(fence, owner)
    if l then act(l) end
    reply = l and '1' or '0'
    Idempotency.keep(owner, number, reply, lease_seconds)
  end
  return tonumber(reply)
end
