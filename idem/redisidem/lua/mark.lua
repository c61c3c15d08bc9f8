-- Stores the steps.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 epoch, 4 the steps
-- Reply: 1, or 0 if it is not the execution of the key any more
if not held(ARGV[2], ARGV[3]) then
  return 0
end
redis.call('hset', key, 'steps', ARGV[4])
return 1
