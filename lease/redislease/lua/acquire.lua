-- Takes a lease that nobody holds.
-- KEYS: 1 the lease: "token end keep state nonce holder meta name", the first three of 16 digits, times in µs since 1970
-- ARGV: 1 nonce with its length, 2 TTL in µs, 3 at-least-for in µs, 4 the highest token that the client has seen, 5 life of the key
--   in ms, 6 holder, meta and name
-- Reply: {1, token}, or {0, token of the holder, "state nonce holder meta name" of it, µs that are left}
local found = redis.call('get', KEYS[1])
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local last = 0
if found then
  last = tonumber(string.sub(found, 1, 16))
  local left = string.sub(found, 18, 33) - now
  -- The same nonce is a request that came twice. Who has released the lease does not ask for it any more: that is one which was
  -- overtaken by its own repetition.
  local mine, free = string.sub(found, 54, 53 + #ARGV[1]) == ARGV[1], string.sub(found, 52, 52) == '-'
  if mine and not free then
    return {1, last}
  end
  if mine or left > 0 then
    return {0, last, string.sub(found, 52), left}
  end
end
local token = math.max(now, last + 1, ARGV[4] + 1)
-- %.0f, since numbers are doubles here, and tostring rounds them to 14 digits.
redis.call('set', KEYS[1], string.format('%016.0f %016.0f %016.0f + ', token, now + math.max(ARGV[2], ARGV[3]), now + ARGV[3]) .. ARGV[1] .. ARGV[6],
  'px', ARGV[5])
return {1, token}
