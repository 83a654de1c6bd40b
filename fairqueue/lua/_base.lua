-- What every script begins with: short names and the time. Rooms are linked behind it.
local concat, insert, max, min = table.concat, table.insert, math.max, math.min
local format, match, gmatch, find, call = string.format, string.match, string.gmatch, string.find, redis.call

-- Formatting costs as much as a command: `now` is kept as text too, and whole numbers are short.
local now_text = ARGV[1]
if now_text == '' then
  local t = call('TIME')
  now_text = t[1] .. '.' .. ('000000' .. t[2]):sub(-6)
end
local now = tonumber(now_text)

local function num(x)
  return format('%.17g', x)
end

local function int(x)
  return format('%d', x)
end
