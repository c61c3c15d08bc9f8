-- Takes a lease that nobody holds.
-- KEYS: 1 the lease, a hash
-- ARGV: 1 nonce, 2 TTL in µs, 3 at-least-for in µs, 4 the highest token that the client has seen, 5 life of the key in ms,
--   6 name, 7 holder, 8 meta
-- Reply: {1, token}, or {0, token of the holder, holder, meta, µs that are left}
local found = redis.call('hmget', KEYS[1], 'token', 'nonce', 'until', 'freed', 'holder', 'meta')
local last = tonumber(found[1] or 0)
if found[2] == ARGV[1] then -- the request came twice
  return {1, last}
end
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local left = tonumber(found[3] or 0) - now
-- Who has released it does not ask for it any more: that is a request which was overtaken by its own repetition.
if left > 0 or found[4] and string.sub(found[4], 1, #ARGV[1] + 1) == ARGV[1] .. ' ' then
  return {0, last, found[5] or '', found[6] or '', left}
end
local token = math.max(now, last + 1, ARGV[4] + 1)
-- %.0f, since numbers are doubles here, and tostring rounds them to 14 digits.
redis.call('hset', KEYS[1], 'name', ARGV[6], 'token', string.format('%.0f', token), 'nonce', ARGV[1], 'holder', ARGV[7],
  'meta', ARGV[8], 'until', string.format('%.0f', now + ARGV[2]), 'keep', string.format('%.0f', now + ARGV[3]), 'resign', '0')
redis.call('pexpire', KEYS[1], ARGV[5])
return {1, token}
