-- Takes from a counter what is there, all or nothing, once for each operation.
-- KEYS: 1 the counter, 2 the ledger entry of the operation
-- ARGV: 1 what the operation does, 2 the amount, above 0, 3 the life of the counter in ms or 0, 4 that of the entry in ms
-- Reply: {status, value, 1 if a lost expiry was repaired}, the value as text, since numbers here are doubles; or the error
local seen = redis.call('get', KEYS[2])
if seen then
  local what, value = string.match(seen, '^(.-)=(.*)$')
  if what ~= ARGV[1] then
    return {'mismatch', seen, 0}
  end
  return {'replayed', value, 0}
end
local have = redis.pcall('get', KEYS[1])
if type(have) == 'table' and have.err then
  return have
end
have = have or '0'
-- As text, since beyond 2^53 two numbers here can be equal that are not. What is no integer fails here or at the decrby.
local want = ARGV[2]
if string.sub(have, 1, 1) == '-' or #have < #want or (#have == #want and have < want) then
  return {'insufficient', have, 0}
end
local done = redis.pcall('decrby', KEYS[1], want)
if type(done) == 'table' and done.err then
  return done
end
local value = redis.call('get', KEYS[1])
redis.call('set', KEYS[2], ARGV[1] .. '=' .. value, 'px', ARGV[4])
local repaired = 0
if ARGV[3] ~= '0' and redis.call('pttl', KEYS[1]) == -1 then
  redis.call('pexpire', KEYS[1], ARGV[3])
  repaired = 1
end
return {'applied', value, repaired}
