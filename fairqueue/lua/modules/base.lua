-- The beginning of every script: short names, the time and the shard's record. What an operation
-- does before its first LATER comes after the first part; the modules are linked behind the second.
-- num and int, for the text of a number and of a whole one, are written out by the linker.
local call, format, match, max, min = redis.call, string.format, string.match, math.max, math.min

-- The time in seconds since 1970, by a clock of the shard that does not go back: what Redis's clock
-- falls behind the last beat is added to it from then on. Formatting a number costs as much as a
-- command, so `now` is kept as text, too.
local now_text = ARGV[1]
if now_text == '' then
  local t = call('TIME')
  now_text = t[1] .. '.' .. (#t[2] == 6 and t[2] or ('000000' .. t[2]):sub(-6))
end
local P = KEYS[2]
-- LATER
local concat, insert = table.concat, table.insert
local gmatch, find, now = string.gmatch, string.find, tonumber(now_text)
-- Keys that a newer release wrote are refused; a record of the shard that cannot be read starts
-- again, since fences and numbers of tasks are above the time.
local FORMAT, META = '1', '^%d+ %d+ ([%d.]+) %S+ %S+ .* ([%d.]+) format=(%d+)$' -- see shard.lua
local NO_META = '0 0 0 - - 0 - 0 0 format=1'
local meta_text = call('GET', K.meta()) or NO_META
local beat, offset, written, meta_unread
if meta_text:sub(-11) == ' 0 format=1' then -- as it mostly ends: to read the whole costs more
  beat, offset, written = match(meta_text, '^%d+ %d+ ([%d.]+) '), '0', FORMAT
else
  beat, offset, written = match(meta_text, META)
end
if not beat or written ~= FORMAT then
  written = match(meta_text, ' format=(%d+)$')
  if written and written ~= FORMAT then return { err = 'FORMAT ' .. written .. ' ' .. FORMAT } end
  meta_text, meta_unread = NO_META, meta_text
  beat, offset = '0', '0'
end
-- Two times of Redis's clock are compared as text, where they have the same length.
local is_later = ARGV[1] == '' and #now_text == #beat and now_text >= beat
if not is_later and now + offset < tonumber(beat) then offset = num(beat - now) end
if offset ~= '0' then
  now = now + offset
  now_text = num(now)
end
