-- Keep what workers of an app have declared; they tell its digest with each heartbeat.
-- ARGV now digest text
-- ROUTE all MERGE told
-- RETURNS 1
-- text: "app\ntask task ...", * for more tasks than are told
local _, digest, text = unpack(ARGV)

call('HSET', K.app_tasks(), digest, text)
return 1
