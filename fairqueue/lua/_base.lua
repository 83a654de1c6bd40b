-- What every script begins with: short names and the time. Rooms are linked behind it.
local call, format, match, gmatch = redis.call, string.format, string.match, string.gmatch
local concat, insert, remove, max, min = table.concat, table.insert, table.remove, math.max, math.min

local now = tonumber(ARGV[1])
if not now then
  local t = call('TIME')
  now = t[1] + t[2] / 1000000
end

local function num(x)
  return format('%.17g', x)
end
