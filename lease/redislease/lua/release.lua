-- Frees a lease, no earlier than at its at-least-for. Its token stays.
-- KEYS: 1 the lease
-- ARGV: 1 nonce, 2 what tells this release from all others
-- Reply: 1 if it was held, also when the request comes again, else 0
local found = redis.call('hmget', KEYS[1], 'nonce', 'keep', 'freed')
local freed = ARGV[1] .. ' ' .. ARGV[2]
if found[3] == freed then
  return 1
end
if found[1] ~= ARGV[1] then
  return 0
end
redis.call('hset', KEYS[1], 'nonce', '', 'holder', '', 'meta', '', 'resign', '0', 'until', found[2], 'freed', freed)
return 1
