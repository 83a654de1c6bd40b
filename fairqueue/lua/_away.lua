-- Whether the store itself was away.
-- After the store was away nobody could renew, so nothing is reaped for one lease. A gap of half
-- a lease tells it: idle claimers poll more often, and a lease renewed by thirds outlives it.
local function is_away(lease_seconds)
  local beat = tonumber(load_meta().beat)
  meta.beat = num(now)
  if beat and now - beat > lease_seconds / 2 then meta.grace = num(now + lease_seconds) end
  return now < (tonumber(meta.grace) or 0)
end
