-- Stores a value and gives the lease back, if the caller has it. Who invalidates deletes the lease, and so does time.
-- KEYS: 1 the value, 2 the lease
-- ARGV: 1 the token of the caller, 2 the envelope, which has the token in it, 3 the life of the value in ms
-- Reply: 1 if it is stored, 0 if it is refused
if redis.call('get', KEYS[2]) == ARGV[1] then
  redis.call('set', KEYS[1], ARGV[2], 'px', ARGV[3])
  redis.call('del', KEYS[2])
  return 1
end
-- The client sends again when a reply is lost: then the value is there already.
if redis.call('get', KEYS[1]) == ARGV[2] then
  return 1
end
return 0
