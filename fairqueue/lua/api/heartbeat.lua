-- Note that an owner of leases lives, or stops: its node, software, and what it takes jobs from.
-- ARGV now owner about digest app
-- ROUTE all MERGE told
-- RETURNS 1; 0: what its app declares is not known here, and is told with another call
-- about: what it tells of itself, as JSON
-- digest: of what its app declares, or empty
-- app: what that is, as JSON; or empty
local _, owner, about, digest, app = unpack(ARGV)

call('HSET', K.workers(), owner, concat({ now_text, digest, about }, ' '))
if app ~= '' then call('HSET', K.workers(), '#' .. digest, app) end
return digest == '' and 1 or call('HEXISTS', K.workers(), '#' .. digest)
