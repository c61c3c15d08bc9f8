-- Stores the answer, and wakes who waits for it.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 epoch, 4 the state, 5 codec, 6 status, 7 how long the answer is kept in µs, 8 how long the key is
--   remembered after it in ms, 9 the channel, 10 the body, if there is one
-- Reply: 1, also if the key has the answer of the execution, or 0 if it is not that of the key any more
if not held(ARGV[2], ARGV[3]) then
  local state, nonce, epoch = read('state', 'nonce', 'epoch')
  return (state == '2' or state == '3') and nonce == ARGV[2] and epoch == ARGV[3] and 1 or 0
end
local life = math.max(math.ceil(ARGV[7] / 1000), 1)
leave()
wake(ARGV[9])
redis.call('hdel', key, 'steps', 'input', 'note', 'request')
redis.call('hset', key, 'state', ARGV[4], 'codec', ARGV[5], 'status', ARGV[6], 'till', text(now + ARGV[7]), 'body', ARGV[10] and '1' or '0')
if ARGV[10] then
  redis.call('set', KEYS[4], ARGV[10], 'px', text(life))
end
redis.call('pexpire', key, text(life + ARGV[8]))
return 1
