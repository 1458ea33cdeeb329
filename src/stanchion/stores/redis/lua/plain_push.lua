--- plain_push

-- The function stanchion_push, for programs without the package. Its library begins with the function `store`, which
-- is the script `push`. A word in angle brackets stands for a value; see client/functions.py.
--
-- KEYS[1] is the prefix of the queue's keys. ARGV: the payload as JSON, or '' for a task with args; then names and
-- values of options. Returns the id of the job, or of the job that has the key.

local UNPRINTABLE = { <unprintable> }
local OPTIONS = { <each options><it> = 1, <end>args = 1 }
local BODY = { <body> }

local function refuse(reason)
    error({ err = 'ERR stanchion_push: ' .. reason })
end

local function is_utf8(text)
    text = string.gsub(text, '[\194-\223][\128-\191]', ' ')
    text = string.gsub(text, '\224[\160-\191][\128-\191]', ' ')
    text = string.gsub(text, '\237[\128-\159][\128-\191]', ' ')
    text = string.gsub(text, '[\225-\236\238\239][\128-\191][\128-\191]', ' ')
    text = string.gsub(text, '\240[\144-\191][\128-\191][\128-\191]', ' ')
    text = string.gsub(text, '[\241-\243][\128-\191][\128-\191][\128-\191]', ' ')
    text = string.gsub(text, '\244[\128-\143][\128-\191][\128-\191]', ' ')
    return not string.find(text, '[\128-\255]')
end

local function length_of(text)
    return select(2, string.gsub(text, '[^\128-\191]', ''))
end

local function code_of(character)
    local first = string.byte(character)
    local code = first < 128 and first or first % (first < 224 and 32 or first < 240 and 16 or 8)
    for index = 2, #character do
        code = code * 64 + string.byte(character, index) % 64
    end
    return code
end

local function is_name(text)
    if not is_utf8(text) or length_of(text) < 1 or length_of(text) > <max_name> then
        return false
    end
    for character in string.gmatch(text, '[%z\1-\127\194-\244][\128-\191]*') do
        local code = code_of(character)
        for index = 1, #UNPRINTABLE, 2 do
            if code >= UNPRINTABLE[index] and code <= UNPRINTABLE[index + 1] or code == 0 then
                return false
            end
        end
    end
    return true
end

-- Returns whether only a partition may have this name, as core/partition_names.py says.
local function is_partition(name)
    local digits = string.match(name, '^.+#(%d+)$')
    local number = tonumber(digits)
    return number and number < <max_partitions> and digits == string.format('%d', number)
end

local function is_number(text)
    local whole, rest = string.match(text, '^-?(%d+)(.*)$')
    if not whole or string.find(whole, '^0%d') then
        return false
    end
    return rest == '' or string.find(rest, '^%.%d+$') or string.find(rest, '^%.%d+[eE][+-]?%d+$')
        or string.find(rest, '^[eE][+-]?%d+$')
end

-- Returns the value of a JSON text, or nil and false if it is none. The decoder alone also takes numbers that are none in
-- JSON, and control characters, which separate the fields of a job.
local function decoded(text)
    local bare = string.gsub(text, '\\.', '')
    for part in string.gmatch(bare, '"([^"]*)"') do
        if string.find(part, '%c') then
            return nil, false
        end
    end
    bare = string.gsub(bare, '"[^"]*"', '"')
    for word in string.gmatch(bare, '[^%s%[%]{},:"]+') do
        if word ~= 'true' and word ~= 'false' and word ~= 'null' and not is_number(word) then
            return nil, false
        end
    end
    if string.find(text, '[%z\1-\8\11\12\14-\31]') or not is_utf8(text) then
        return nil, false
    end
    local valid, value = pcall(cjson.decode, text)
    return valid and value or nil, valid
end

local function is_a(value, text, bracket)
    return type(value) == 'table' and string.find(text, '^%s*%' .. bracket) ~= nil
end

-- Returns whether a JSON object has a list of args, and kwargs, if any, that are an object. The decoder does not tell an
-- empty list from an empty object.
local function has_arguments(text)
    local bare = string.gsub(text, '\\.', '')
    bare = string.gsub(string.gsub(bare, '"kwargs"%s*:%s*', 'K'), '"args"%s*:%s*', 'A')
    bare = string.match(string.gsub(bare, '"[^"]*"', '"'), '^%s*{(.*)}')
    bare = string.gsub(string.gsub(bare, '%b{}', '{'), '%b[]', '[')
    return string.find(bare, 'A[', 1, true) and (not string.find(bare, 'K') or string.find(bare, 'K{', 1, true))
end

local function content_of(payload, given)
    local value, valid = decoded(payload)
    if not given.task then
        if given.args then
            refuse('args are the arguments of a task: give its name as task, or else a payload')
        elseif not valid then
            refuse('give the payload as JSON, such as {"id": 1}, or a task with its args')
        end
        return payload
    elseif given.args then
        local args, are_valid = decoded(given.args)
        if payload ~= '' then
            refuse('args are the arguments of a task: give payload or args, not both')
        elseif are_valid and is_a(args, given.args, '[') then
            return '{"args":' .. given.args .. '}'
        elseif are_valid and is_a(args, given.args, '{') then
            return '{"args":[],"kwargs":' .. given.args .. '}'
        end
        refuse('args must be a JSON array of arguments, or an object of arguments by name')
    elseif payload == '' then
        return '{"args":[]}'
    end
    local fits = valid and is_a(value, payload, '{') and has_arguments(payload)
    for name in pairs(fits and value or {}) do
        fits = fits and (name == 'args' or name == 'kwargs')
    end
    if not fits then
        refuse('the payload of a task must be {"args": [...], "kwargs": {...}}; or give args')
    end
    return payload
end

local function limits_of(text, prefix)
    local names, valid = decoded(text)
    if not valid or not is_a(names, text, '[') or #names > <max_limits> then
        refuse('limits must be a JSON array of at most <max_limits> names of semaphores')
    end
    local known, sorted = {}, {}
    for _, name in ipairs(names) do
        if type(name) ~= 'string' then
            refuse('limits must be a JSON array of names of semaphores, as texts')
        elseif not known[name] then
            local found = redis.pcall('SISMEMBER', prefix .. ':semaphores', name)
            if type(found) == 'table' then
                refuse('in a cluster, limits must be left out: their semaphores are on other nodes')
            elseif found == 0 then
                refuse("no semaphore '" .. name .. "': stanchion semaphores resize NAME N makes it")
            end
            known[name] = true
            sorted[#sorted + 1] = name
        end
    end
    table.sort(sorted)
    return sorted
end

local function seconds_of(text, name)
    local seconds = is_number(text) and tonumber(text) or -1
    if seconds < 0 or seconds > <longest_delay> or name ~= 'delay' and seconds == 0 then
        local least = name ~= 'delay' and 'more than 0 seconds, and at most 100 years' or 'from 0 seconds to 100 years'
        refuse(name .. ' must be ' .. least)
    end
    return seconds
end

local function whole_of(given, name, least, most, otherwise)
    local text = given[name]
    local number = text and string.find(text, '^-?%d+$') and tonumber(text)
    if text and (not number or number < least or number > most) then
        refuse(name .. ' must be a whole number from ' .. least .. ' to ' .. most)
    end
    return string.format('%d', number or otherwise)
end

-- Returns the days from 1970 to a date, by counting years that begin in March.
local function days_to(year, month, day)
    local shifted = month > 2 and year or year - 1
    local in_year = math.floor((153 * (month + (month > 2 and -3 or 9)) + 2) / 5) + day - 1
    return 365 * shifted + math.floor(shifted / 4) - math.floor(shifted / 100) + math.floor(shifted / 400) + in_year - 719468
end

local function is_date(year, month, day)
    local leap = year % 4 == 0 and (year % 100 ~= 0 or year % 400 == 0)
    local most = ({ 31, leap and 29 or 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 })[month]
    return year > 0 and most and day > 0 and day <= most
end

-- Returns a time in microseconds: of a number of seconds, or of a text with a zone.
local function moment_of(text)
    if is_number(text) and tonumber(text) > -62135510400 and tonumber(text) < 253402128000 then
        return math.floor(tonumber(text) * 1000000 + 0.5)
    end
    local year, month, day, hour, minute, rest = string.match(text, '^(%d%d%d%d)%-(%d%d)%-(%d%d)[T ](%d%d):(%d%d)(.*)$')
    local second, fraction, zone = string.match(rest or '', '^:(%d%d)%.?(%d*)(.*)$')
    if rest and not second then
        second, fraction, zone = '0', '', rest
    end
    local sign, hours, minutes = string.match(zone or '', '^([+-])(%d%d):(%d%d)$')
    if zone == 'Z' then
        sign, hours, minutes = '+', '0', '0'
    end
    local dated = sign and is_date(tonumber(year), tonumber(month), tonumber(day))
    if not dated or tonumber(hour) > 23 or tonumber(minute) > 59 or tonumber(second) > 59 or #fraction > 6 then
        refuse('run_at must be such as 2030-01-31T08:00:00Z, or seconds since 1970')
    end
    local offset = (tonumber(hours) * 3600 + tonumber(minutes) * 60) * (sign == '+' and 1 or -1)
    local seconds = days_to(tonumber(year), tonumber(month), tonumber(day)) * 86400
    seconds = seconds + tonumber(hour) * 3600 + tonumber(minute) * 60 + tonumber(second) - offset
    return seconds * 1000000 + tonumber((fraction .. '000000'):sub(1, 6))
end

-- A UUID of version 7, whose random part begins with the microseconds.
local function new_id(P, payload)
    local time = redis.call('TIME')
    local pushed = redis.call('HGET', P .. 'counts', 'pushed') or '0'
    local random = redis.sha1hex(table.concat({ P, time[1], time[2], pushed, payload }, ' '))
    local millis = string.format('%012x', time[1] * 1000 + math.floor(time[2] / 1000))
    return string.format(
        '%s-%s-7%03x-%x%s-%s', millis:sub(1, 8), millis:sub(9), math.floor(time[2] % 1000 * 4096 / 1000),
        8 + tonumber(random:sub(1, 1), 16) % 4, random:sub(2, 4), random:sub(5, 16)
    )
end

local function checked(options)
    local given = {}
    for index = 1, #options, 2 do
        local name, value = options[index], options[index + 1]
        if not OPTIONS[name] then
            refuse('unknown option ' .. string.sub(name, 1, 60))
        elseif not value then
            refuse('the option ' .. name .. ' has no value')
        end
        given[name] = value
    end
    for _, name in ipairs({ <names> }) do
        if given[name] and not is_name(given[name]) then
            refuse(name .. ' must be 1 to <max_name> printable characters')
        end
    end
    if given.headers then
        local value, valid = decoded(given.headers)
        if not valid or not is_a(value, given.headers, '{') or length_of(given.headers) > <max_headers> then
            refuse('headers must be a JSON object of at most <max_headers> characters')
        end
        given.headers = next(value) and given.headers
    end
    if given.run_at and given.delay then
        refuse('give run_at or delay, not both')
    end
    return given
end

local function push(keys, arguments)
    local P, US = keys[1] or '', '\31'
    local prefix, tag = string.match(P, '^([^{}]*):{([^}]*)}:$')
    local queue = tag and tag:gsub('%%7D', '}'):gsub('%%25', '%%')
    if not queue then
        refuse('the key must be the prefix of the keys of a queue, such as stanchion:{mail}:')
    elseif not is_name(queue) then
        refuse('queue must be 1 to <max_name> printable characters')
    end
    if is_partition(queue) then
        refuse('queue is named like a partition: name the queue itself, without # and number')
    end
    local payload = arguments[1] or ''
    local given = checked({ unpack(arguments, 2) })
    local content = content_of(payload, given)
    if #content > <max_payload> then
        refuse('the payload takes more than <max_payload> bytes; store it elsewhere and pass a reference')
    end
    local semaphores = given.limits and limits_of(given.limits, prefix) or {}
    local priority = whole_of(given, 'priority', <min_priority>, <max_priority>, 0)
    given.max_attempts = whole_of(given, 'max_attempts', 1, <most_attempts>, <max_attempts>)
    for _, name in ipairs({ <spans> }) do
        given[name] = given[name] and string.format('%.17g', seconds_of(given[name], name))
    end
    local delay = given.delay and math.floor(seconds_of(given.delay, 'delay') * 1000000) or 0
    local run_at = given.run_at and string.format('%.0f', moment_of(given.run_at)) or ''

    local order = given.order_key or ''
    if order == '' and redis.call('HGET', P .. 'settings', 'ordered_by') == 'tenant' then
        order = given.tenant or ''
    end
    local parted = redis.call('HGET', P .. 'settings', 'partitioned')
    if parted and (given.key or order ~= '') then
        refuse('a queue with partitions takes no key and no order_key here, as they decide the partition')
    end
    local bound = ''
    given.payload, given.limits = content, nil
    if #semaphores > 0 then
        given.limits, bound = '{"hold":' .. cjson.encode(semaphores) .. '}', 's:' .. semaphores[1]
    end
    if order ~= '' then
        bound = 'o' .. length_of(queue) .. ':' .. queue .. ':' .. order
    end
    if redis.call('EXISTS', P .. 'settings') == 0 and type(redis.pcall('SADD', prefix .. ':queues', queue)) == 'table' then
        refuse('in a cluster, make the queue first, such as by stanchion queues set ' .. queue .. ' lease=30')
    end

    local id = new_id(P, payload)
    local job = {
        id, 'return', priority, '<unlaned>', run_at, run_at == '' and string.format('%.0f', delay) or '',
        given.key or '', '', order, bound, '', '', given.expires and string.format('%.0f', given.expires * 1000000) or '',
        '',
    }
    for _, name in ipairs(BODY) do
        job[#job + 1] = given[name] or ''
    end
    local answers = store({ P }, { '0', '', table.concat(job, US) })[3]
    return answers[3] or id
end

redis.register_function('stanchion_push', push)
