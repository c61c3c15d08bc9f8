-- Takes a key that another execution had.
-- KEYS: see key.lua
-- ARGV: 1 the id, 2 nonce, 3 lease in µs, 4 the highest epoch that the client has seen, 5 the nonce it is to have, or that of nobody,
--   which is '', 6 the states in which its time must be over, 7 those in which it need not be, 8 the member of the index that it was
--   found by, or '', then what is stored of a key that had an answer, names and values
-- Reply: see tell in key.lua, or {} if it is not taken
local state, nonce, epoch, till = read('state', 'nonce', 'epoch', 'till')
if state == '1' and nonce == ARGV[2] then
  return tell() -- the request comes again
end
if not state then
  redis.call('zrem', KEYS[1], ARGV[8]) -- somebody has deleted the key
  return {}
end
local may = string.find(ARGV[7], state, 1, true) or string.find(ARGV[6], state, 1, true) and till - now <= 0
if not may or ARGV[5] ~= '' and ARGV[5] ~= nonce then
  return {}
end
if state == '2' or state == '3' then
  begin(ARGV[2], epoch, ARGV[4], ARGV[3], {unpack(ARGV, 9)})
  return tell()
end
leave()
redis.call('hset', key, 'state', '1', 'nonce', ARGV[2], 'epoch', text(math.max(now, epoch + 1, ARGV[4] + 1)), 'till', text(now + ARGV[3]))
redis.call('hincrby', key, 'attempts', 1)
redis.call('hdel', key, 'note', 'request')
enter(now + ARGV[3])
return tell()
