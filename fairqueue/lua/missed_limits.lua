-- Note live limits that other shards have missed, since they were away; forget some; list the rest.
-- ARGV now noted forgotten
-- RETURNS {"scope:name shard", ...}
-- noted, forgotten: such words, each in a line
local _, noted, forgotten = unpack(ARGV)
local missed = K.limits_with('missed')
for line in gmatch(noted, '[^\n]+') do call('SADD', missed, line) end
for line in gmatch(forgotten, '[^\n]+') do call('SREM', missed, line) end
return call('SMEMBERS', missed)
