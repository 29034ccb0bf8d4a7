-- One exchange of flow control: takes in a report, then admits what it can. The same rules as app/flow/local.py,
-- in Redis' own time and in seconds.
--
-- KEYS: 1 what is known of the endpoint, 2 the processes that live.
-- ARGV: 1 this process; bounds: 2 concurrency, 3 requests and 4 tokens a minute (0: unknown); report: 5 successes,
--   6 age of the youngest throttled call (-1: none), 7 seconds closed, 8 tokens, 9 requests and 10 tokens a minute as
--   told (0: not told); demand: 11 in flight, 12 interactive, 13... tokens of each call; and between them the constants
--   of app/flow/state.py, which the caller fills in.
-- Returns {admitted, places, wait (-1: none), closed, limit, processes, answered, requests and tokens a minute as told}.

local FIRST_CALLS, FIRST_LIMIT, BURST = @FIRST_CALLS, @FIRST_LIMIT, @BURST_SECONDS
local PLACES_A_RESERVE, FEWEST_WITH_RESERVE = @PLACES_A_RESERVE, @FEWEST_WITH_RESERVE
local LIVE, KEPT, NEGLIGIBLE = @LIVE_SECONDS, @KEPT_SECONDS, 1e-6

local function argument(position) return tonumber(ARGV[position]) end
local function exact(number) return string.format('%.6f', number) end

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6

local names = {'limit', 'answered', 'opens_at', 'halved_at', 'requests', 'tokens', 'requests_due', 'tokens_due'}
local kept, known = redis.call('HMGET', KEYS[1], unpack(names)), {}
for index, name in ipairs(names) do known[name] = tonumber(kept[index] or '') end

redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', exact(now - LIVE))
redis.call('ZADD', KEYS[2], exact(now), ARGV[1])
redis.call('EXPIRE', KEYS[2], LIVE * 2)
local processes = redis.call('ZCARD', KEYS[2])

local concurrency = argument(2)
local limit = math.min(concurrency, (known.limit or math.min(concurrency, FIRST_LIMIT)) + argument(5))
local answered = (known.answered == 1 or argument(5) > 0 or argument(6) >= 0) and 1 or 0
local opens_at = math.max(known.opens_at or 0, now + argument(7))
local halved_at = known.halved_at or 0
if argument(6) >= 0 and now - argument(6) > halved_at then
  limit, halved_at = math.max(1, math.floor(limit / 2)), now
end

local told_requests = argument(9) > 0 and argument(9) or known.requests or 0
local told_tokens = argument(10) > 0 and argument(10) or known.tokens or 0
local function interval(configured, told)
  if configured > 0 and told > 0 then return 60 / math.min(configured, told) end
  return configured + told > 0 and 60 / (configured + told) or 0
end
local a_request, a_token = interval(argument(3), told_requests), interval(argument(4), told_tokens)
local requests_due = known.requests_due or 0
local tokens_due = math.max(known.tokens_due or 0, now) + argument(8) * a_token

local places = math.ceil((answered == 1 and limit or math.min(limit, FIRST_CALLS)) / processes)
local for_batches = places
if places >= FEWEST_WITH_RESERVE then
  for_batches = places - math.max(1, math.floor(places / PLACES_A_RESERVE))
end

local admitted, wait, closed = 0, -1, math.max(0, opens_at - now)
if closed > NEGLIGIBLE then
  wait = closed
else
  for position = 13, #ARGV do
    local room = admitted < argument(12) and places or for_batches
    if argument(11) + admitted >= room then break end
    local due = math.max(requests_due, tokens_due) - now - BURST
    if due > NEGLIGIBLE then
      wait = due
      break
    end
    requests_due = math.max(requests_due, now) + a_request
    tokens_due = math.max(tokens_due, now) + argument(position) * a_token
    admitted = admitted + 1
  end
end

redis.call('HSET', KEYS[1], 'limit', limit, 'answered', answered, 'opens_at', exact(opens_at),
  'halved_at', exact(halved_at), 'requests', told_requests, 'tokens', told_tokens,
  'requests_due', exact(requests_due), 'tokens_due', exact(tokens_due))
redis.call('EXPIRE', KEYS[1], KEPT + math.ceil(closed))
return {admitted, places, exact(wait), exact(closed), limit, processes, answered, tostring(told_requests),
  tostring(told_tokens)}
