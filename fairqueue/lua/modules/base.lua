-- The beginning of every script: short names, the shard's record and the time. The modules are
-- linked behind it. Keys that a newer release wrote are refused; a record of the shard that cannot
-- be read starts again, since fences and numbers of tasks are above the time.
local call, concat, insert, max, min = redis.call, table.concat, table.insert, math.max, math.min
local format, match, gmatch, find = string.format, string.match, string.gmatch, string.find

local function num(x)
  return format('%.17g', x)
end

local function int(x)
  return format('%d', x)
end

-- The time in seconds since 1970, by a clock of the shard that does not go back: what Redis's clock
-- falls behind the last beat is added to it from then on. Formatting a number costs as much as a
-- command, so `now` is kept as text, too.
local now_text = ARGV[1]
if now_text == '' then
  local t = call('TIME')
  now_text = t[1] .. '.' .. ('000000' .. t[2]):sub(-6)
end
local FORMAT, META = '1', '^%d+ %d+ ([%d.]+) %S+ %S+ .* ([%d.]+) format=(%d+)$' -- see shard.lua
local NO_META = '0 0 0 - - 0 - 0 0 format=1'
local meta_text = call('GET', K.meta()) or NO_META
local beat, offset, written = match(meta_text, META)
local meta_unread
if written ~= FORMAT then
  written = match(meta_text, ' format=(%d+)$')
  if written and written ~= FORMAT then return { err = 'FORMAT ' .. written .. ' ' .. FORMAT } end
  meta_text, meta_unread = NO_META, meta_text
  beat, offset = '0', '0'
end
local now = tonumber(now_text)
if now + offset < tonumber(beat) then offset = num(beat - now) end
if offset ~= '0' then
  now = now + offset
  now_text = num(now)
end
