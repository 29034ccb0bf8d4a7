-- One exchange of flow control: takes in a report, then admits what it can. The same rules as app/providers/flow_state.py,
-- in Redis' own time and in seconds.
--
-- KEYS: 1 what is known of the endpoint, 2 the processes that live: of each when it was seen, how many calls it has in
--   flight, and since when it waits for the others with none (0: it does not).
-- ARGV: 1 this process; bounds: 2 concurrency, 3 requests and 4 tokens a minute (0: unknown); report: 5 successes,
--   6 age of the youngest throttled call (-1: none), 7 seconds closed, 8 tokens, 9 requests and 10 tokens a minute as
--   told (0: not told), 11 longest pause, 12 whether the endpoint asked for more (1); demand: 13 in flight, 14 how many
--   may take every place, 15... tokens of each call; and between them the constants of app/providers/flow_state.py, which the caller fills in.
-- Returns {admitted, places, wait (-1: none), closed, limit, processes, answered, requests and tokens a minute as told}.

local FIRST_CALLS, FIRST_LIMIT, BURST = @FIRST_CALLS, @FIRST_LIMIT, @BURST_SECONDS
local PLACES_A_RESERVE, FEWEST_WITH_RESERVE = @PLACES_A_RESERVE, @FEWEST_WITH_RESERVE
local LIVE, OVERDUE, RETRY = @LIVE_SECONDS, @OVERDUE_SECONDS, @ASK_AGAIN_SECONDS
local KEPT, NEGLIGIBLE = @KEPT_SECONDS, 1e-6

local function argument(position) return tonumber(ARGV[position]) end
local function exact(number) return string.format('%.6f', number) end

local time = redis.call('TIME')
local now = tonumber(time[1]) + tonumber(time[2]) / 1e6

local names = {'limit', 'answered', 'opens_at', 'halved_at', 'requests', 'tokens', 'requests_due', 'tokens_due'}
local kept, known = redis.call('HMGET', KEYS[1], unpack(names)), {}
for index, name in ipairs(names) do known[name] = tonumber(kept[index] or '') end

local live, others, waits_since = redis.call('HGETALL', KEYS[2]), {}, now
for index = 1, #live, 2 do
  local seen, calls, since = string.match(live[index + 1], '(%S+) (%S+) (%S+)')
  local silent = now - tonumber(seen)
  if live[index] == ARGV[1] then
    if tonumber(since) > 0 then waits_since = tonumber(since) end
  elseif silent > LIVE then
    redis.call('HDEL', KEYS[2], live[index])
  else
    table.insert(others, {silent = silent, calls = tonumber(calls), since = tonumber(since)})
  end
end
local processes = #others + 1

local concurrency = argument(2)
local limit = math.min(concurrency, (known.limit or math.min(concurrency, FIRST_LIMIT)) + argument(5))
local answered = (known.answered == 1 or argument(5) > 0 or argument(6) >= 0) and 1 or 0
-- No longer than the longest pause, whatever stands there: a process with other settings may have written it, or Redis'
-- clock was put back.
local opens_at = math.min(math.max(known.opens_at or 0, now + argument(7)), now + argument(11))
local halved_at = known.halved_at or 0
if argument(6) >= 0 and now - argument(6) > halved_at then
  limit, halved_at = math.max(1, math.floor(limit / 2)), now
end
if argument(12) == 1 then limit = 1 end

local told_requests = argument(9) > 0 and argument(9) or known.requests or 0
local told_tokens = argument(10) > 0 and argument(10) or known.tokens or 0
local function interval(configured, told)
  if configured > 0 and told > 0 then return 60 / math.min(configured, told) end
  return configured + told > 0 and 60 / (configured + told) or 0
end
local a_request, a_token = interval(argument(3), told_requests), interval(argument(4), told_tokens)
local requests_due = known.requests_due or 0
local tokens_due = math.max(known.tokens_due or 0, now) + argument(8) * a_token

local for_all = answered == 1 and limit or math.min(limit, FIRST_CALLS)
local places = math.ceil(for_all / processes)
local for_batches = places
if places >= FEWEST_WITH_RESERVE then
  for_batches = places - math.max(1, math.floor(places / PLACES_A_RESERVE))
end

-- What the others leave: a process that was alone may still have far more than its share in flight.
local left = for_all
for _, other in ipairs(others) do
  -- It would have been heard of had it calls in flight; some may yet be, but it holds no more than its share.
  left = left - (other.silent > OVERDUE and math.min(other.calls, places) or other.calls)
  -- Those who wait longer and still ask go first, or who has calls in flight would take each place that comes free.
  if other.since > 0 and other.since < waits_since and other.silent < RETRY * 5 then left = left - 1 end
end

local admitted, wait, closed, waiting = 0, -1, math.max(0, opens_at - now), false
if closed > NEGLIGIBLE then
  wait = closed
else
  for position = 15, #ARGV do
    local room = admitted < argument(14) and places or for_batches
    local calls = argument(13) + admitted
    if calls >= room then break end
    if calls >= left then
      -- Without a call in flight it has to ask again; with some it has no more places than these until one ends.
      if calls == 0 then wait, waiting = RETRY, true else places = calls end
      break
    end
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
redis.call('HSET', KEYS[2], ARGV[1], exact(now) .. ' ' .. argument(13) + admitted .. ' ' ..
  (waiting and exact(waits_since) or 0))
redis.call('EXPIRE', KEYS[2], LIVE * 2)
return {admitted, places, exact(wait), exact(closed), limit, processes, answered, tostring(told_requests),
  tostring(told_tokens)}
