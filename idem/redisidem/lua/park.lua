-- Gives a key up that has no answer.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 epoch, 4 what tells this request from all others, 5 the state, 6 in how many µs it is due, 7 why, 8 if
--   attempts are counted anew '1', 9 the channel
-- Reply: 1, also when the request comes again, or 0 if it is not the execution of the key any more
if not held(ARGV[2], ARGV[3]) then
  return read('request') == ARGV[4] and 1 or 0
end
leave()
wake(ARGV[9])
redis.call('hset', key, 'state', ARGV[5], 'till', text(now + ARGV[6]), 'note', ARGV[7], 'request', ARGV[4])
if ARGV[8] == '1' then
  redis.call('hset', key, 'attempts', '0')
end
enter(now + ARGV[6])
return 1
