-- Whether configured limits were ever stored here; false once the store has lost its data.
-- ARGV now
-- ROUTE all MERGE all
-- RETURNS 1 or 0
-- WRITES nothing
return call('HEXISTS', K.limits(), 'configured')
