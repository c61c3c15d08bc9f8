-- Gives up a place among those who wait.
-- KEYS: see turn.lua
-- ARGV: 1 the waiter
-- Reply: how many places it had
redis.call('zrem', KEYS[3], ARGV[1])
return redis.call('zrem', KEYS[2], ARGV[1])
