-- Lets leases run on, each if it is still the term's. One that has run out, and that nobody has taken since, is.
-- KEYS: see key.lua; 3 and all that follow are keys
-- ARGV: 1 lease in µs, then of each key its id, nonce and epoch
-- Reply: for each key 1, or 0 if it is lost
local became = {}
for i = 3, #KEYS do
  local at = 3 * i - 7
  key, id = KEYS[i], ARGV[at]
  became[i - 2] = 0
  if held(ARGV[at + 1], ARGV[at + 2]) then
    redis.call('hset', key, 'till', text(now + ARGV[1]))
    enter(now + ARGV[1])
    became[i - 2] = 1
  end
end
return became
