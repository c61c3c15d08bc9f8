-- Deletes a key if it is what the caller thinks: its own lease, or a value that it cannot read.
-- KEYS: 1 the key
-- ARGV: 1 what it is
-- Reply: 1, or 0 if it is something else by now
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('del', KEYS[1])
end
return 0
