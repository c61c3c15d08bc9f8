-- Reads a value, or takes the lease on loading it, or tells that somebody has that.
-- KEYS: 1 the value, 2 the lease
-- ARGV: 1 the token of the caller, 2 the life of the lease in ms
-- Reply: {'value', envelope}, {'granted'} or {'held', the token of who has it}
local value = redis.call('get', KEYS[1])
if value then
  return {'value', value}
end
if redis.call('set', KEYS[2], ARGV[1], 'nx', 'px', ARGV[2]) then
  return {'granted'}
end
-- The client sends again when a reply is lost: then the lease is the caller's already.
local holder = redis.call('get', KEYS[2])
if holder == ARGV[1] then
  return {'granted'}
end
return {'held', holder}
