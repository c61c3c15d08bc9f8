-- Prolongs the lease, if the caller has it.
-- KEYS: 1 the lease
-- ARGV: 1 the token of the caller, 2 the life of the lease from now in ms
-- Reply: 1, or 0 if the lease is not the caller's
if redis.call('get', KEYS[1]) == ARGV[1] then
  return redis.call('pexpire', KEYS[1], ARGV[2])
end
return 0
