-- Lets leases run on, each if it is still the term's. One that has run out, and that nobody has taken since, is.
-- KEYS: the leases
-- ARGV: for each lease its token, nonce, TTL in µs, and the life of its key in ms
-- Reply: for each lease 1, 2 if its holder is asked to resign, or 0 if it was lost
local time = redis.call('time')
local now = time[1] * 1000000 + time[2]
local became = {}
for i, key in ipairs(KEYS) do
  local at = (i - 1) * 4
  local found = redis.call('hmget', key, 'token', 'nonce', 'resign')
  became[i] = 0
  if found[1] == ARGV[at + 1] and found[2] == ARGV[at + 2] then
    redis.call('hset', key, 'until', string.format('%.0f', now + ARGV[at + 3]))
    redis.call('pexpire', key, ARGV[at + 4])
    became[i] = found[3] == '1' and 2 or 1
  end
end
return became
