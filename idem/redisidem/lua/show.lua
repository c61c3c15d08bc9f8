-- Tells of a key, without its input and the body of its answer.
-- KEYS: see key.lua; without 4
-- ARGV: 1 the id
-- Reply: see tell in key.lua
table.remove(fields)
return {now, redis.call('hmget', key, unpack(fields)), false}
