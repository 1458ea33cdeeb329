CREATE VIEW stanchion_push AS
SELECT
    id, queue, payload, task, NULL AS args, priority, run_at / 1000000.0 AS run_at, NULL AS delay, tenant, "key",
    order_key, limits, headers, max_attempts<each spans>, <it><end>
FROM stanchion_jobs WHERE rowid = (SELECT max(rowid) FROM stanchion_jobs)
;;
CREATE TRIGGER stanchion_push_insert INSTEAD OF INSERT ON stanchion_push
BEGIN
    SELECT CASE
        WHEN NEW.id IS NOT NULL THEN RAISE(ABORT, 'stanchion_push: leave out the id, the queue makes it')
        WHEN NOT coalesce(typeof(NEW.queue) = 'text' AND length(NEW.queue) BETWEEN 1 AND <max_name>, 0)
            OR NEW.queue GLOB '*[' || char(<unprintable>) || ']*'
            THEN RAISE(ABORT, 'stanchion_push: queue must be 1 to <max_name> printable characters')
        WHEN rtrim(NEW.queue, '0123456789') GLOB '?*#' AND EXISTS (
            SELECT 1 FROM (SELECT substr(NEW.queue, length(rtrim(NEW.queue, '0123456789')) + 1) AS digits)
            WHERE digits = CAST(CAST(digits AS INTEGER) AS TEXT) AND CAST(digits AS INTEGER) < <max_partitions>
        ) THEN RAISE(ABORT, 'stanchion_push: queue is named like a partition: name the queue itself, without # and number')
        <each names>WHEN NEW."<it>" IS NOT NULL AND (
            typeof(NEW."<it>") <> 'text' OR length(NEW."<it>") NOT BETWEEN 1 AND <max_name>
            OR NEW."<it>" GLOB '*[' || char(<unprintable>) || ']*'
        ) THEN RAISE(ABORT, 'stanchion_push: <it> must be 1 to <max_name> printable characters')
        <end>
        WHEN NEW.args IS NOT NULL AND (NEW.task IS NULL OR NEW.payload IS NOT NULL)
            THEN RAISE(ABORT, 'stanchion_push: args are the arguments of a task: give its name as task, and no payload')
        WHEN NEW.args IS NOT NULL AND NOT (
            json_valid(<args>) AND CASE WHEN json_valid(<args>) THEN json_type(<args>) IN ('array', 'object') END
        ) THEN RAISE(ABORT, 'stanchion_push: args must be a JSON array of arguments, or an object of arguments by name')
        WHEN NEW.args IS NULL AND NEW.task IS NULL AND NOT coalesce(json_valid(<payload>), 0)
            THEN RAISE(ABORT, 'stanchion_push: the payload must be JSON, such as {"id": 1}')
        WHEN NEW.task IS NOT NULL AND NEW.payload IS NOT NULL AND NOT coalesce(
            CASE WHEN json_valid(<payload>) THEN
                json_type(<payload>) = 'object' AND json_type(<payload>, '$.args') = 'array'
                AND coalesce(json_type(<payload>, '$.kwargs'), 'object') = 'object'
                AND (SELECT count(*) FROM json_each(<payload>) WHERE "key" NOT IN ('args', 'kwargs')) = 0
            END, 0
        ) THEN RAISE(
            ABORT, 'stanchion_push: the payload of a task must be {"args": [...], "kwargs": {...}}; or give args'
        )
        WHEN length(CAST(coalesce(<payload>, <args>) AS BLOB)) > <max_payload> THEN RAISE(
            ABORT, 'stanchion_push: the payload takes more than <max_payload> bytes; store it elsewhere and pass a reference'
        )
        WHEN NEW.headers IS NOT NULL AND NOT coalesce(
            CASE WHEN json_valid(<headers>) THEN json_type(<headers>) = 'object' END
            AND length(<headers>) <= <max_headers>, 0
        ) THEN RAISE(ABORT, 'stanchion_push: headers must be a JSON object of at most <max_headers> characters')
        -- SQLite takes any bytes as text. The first <different_max> different characters beyond ASCII are looked at, each once: the
        -- rest begins with one, which is replaced everywhere. A claim finds what is behind them.
        WHEN EXISTS (
            WITH RECURSIVE part (rest) AS (
                SELECT ltrim(texts, char(<ascii>)) FROM (
                    SELECT NEW.queue || ' ' || coalesce(NEW.task, '') || ' ' || coalesce(NEW.tenant, '') || ' '
                        || coalesce(NEW."key", '') || ' ' || coalesce(NEW.order_key, '') || ' '
                        || coalesce(<headers>, '') || ' ' || coalesce(<limits>, '') || ' '
                        || coalesce(<payload>, <args>, '') AS texts
                ) WHERE texts GLOB '*[^' || char(1, 45, 127) || ']*'
                UNION ALL
                SELECT ltrim(replace(rest, substr(rest, 1, 1), ' '), char(<ascii>)) FROM part WHERE rest <> ''
                LIMIT <different_max>
            )
            SELECT 1 FROM (SELECT hex(substr(rest, 1, 1)) AS bytes FROM part WHERE rest <> '')
            WHERE NOT (
                bytes GLOB 'C[2-9A-F][89AB]?' OR bytes GLOB 'D?[89AB]?' OR bytes GLOB 'E0[AB]?[89AB]?'
                OR bytes GLOB 'E[1-9A-CEF][89AB]?[89AB]?' OR bytes GLOB 'ED[89]?[89AB]?'
                OR bytes GLOB 'F0[9AB]?[89AB]?[89AB]?' OR bytes GLOB 'F[1-3][89AB]?[89AB]?[89AB]?'
                OR bytes GLOB 'F48?[89AB]?[89AB]?'
            )
        ) THEN RAISE(ABORT, 'stanchion_push: the text is not UTF-8: let the program that pushes it send UTF-8')
        WHEN NEW.priority IS NOT NULL
            AND (typeof(NEW.priority) <> 'integer' OR NEW.priority NOT BETWEEN <min_priority> AND <max_priority>)
            THEN RAISE(ABORT, 'stanchion_push: priority must be a whole number from <min_priority> to <max_priority>')
        WHEN NEW.max_attempts IS NOT NULL
            AND (typeof(NEW.max_attempts) <> 'integer' OR NEW.max_attempts NOT BETWEEN 1 AND <most_attempts>)
            THEN RAISE(ABORT, 'stanchion_push: max_attempts must be a whole number from 1 to <most_attempts>')
        WHEN NEW.delay IS NOT NULL
            AND (typeof(NEW.delay) NOT IN ('integer', 'real') OR NEW.delay NOT BETWEEN 0 AND <longest_delay>)
            THEN RAISE(ABORT, 'stanchion_push: delay must be from 0 seconds to 100 years')
        <each spans>WHEN NEW.<it> IS NOT NULL AND (
            typeof(NEW.<it>) NOT IN ('integer', 'real') OR NEW.<it> <= 0 OR NEW.<it> > <longest_delay>
        ) THEN RAISE(ABORT, 'stanchion_push: <it> must be more than 0 seconds, and at most 100 years')
        <end>
        WHEN NEW.run_at IS NOT NULL AND NEW.delay IS NOT NULL
            THEN RAISE(ABORT, 'stanchion_push: give run_at or delay, not both')
        WHEN NEW.run_at IS NOT NULL AND NOT coalesce(CASE typeof(NEW.run_at)
            WHEN 'text' THEN (NEW.run_at GLOB '[0-9][0-9][0-9][0-9]-*Z' OR NEW.run_at GLOB '[0-9][0-9][0-9][0-9]-*[+-][0-9][0-9]:[0-9][0-9]')
                AND julianday(NEW.run_at) BETWEEN 1721427 AND 5373483
            WHEN 'blob' THEN 0
            ELSE NEW.run_at BETWEEN -62135510400 AND 253402128000
        END, 0) THEN RAISE(
            ABORT, 'stanchion_push: run_at must be such as 2030-01-31T08:00:00Z, or seconds since 1970'
        )
        WHEN (NEW."key" IS NOT NULL OR NEW.order_key IS NOT NULL) AND EXISTS (
            SELECT 1 FROM stanchion_values AS layout
            WHERE layout.kind = 'partitions' AND layout.name = NEW.queue AND json_extract(layout.text, '$.keys') <> 0
        ) THEN RAISE(
            ABORT,
            'stanchion_push: a queue with partitions takes no key and no order_key from SQL, as they decide the partition'
        )
        WHEN NEW.limits IS NOT NULL AND NOT coalesce(
            CASE WHEN json_valid(<limits>) THEN
                json_type(<limits>) = 'array' AND json_array_length(<limits>) <= <max_limits>
            END, 0
        ) THEN RAISE(ABORT, 'stanchion_push: limits must be a JSON array of at most <max_limits> names of semaphores')
        WHEN NEW.limits IS NOT NULL AND EXISTS (
            SELECT 1 FROM json_each(<limits>) AS given WHERE given.type <> 'text' OR NOT EXISTS (
                SELECT 1 FROM stanchion_slots AS slot
                WHERE slot.kind = '<semaphore>' AND slot.queue = '' AND slot.name = given.value
                    AND slot.capacity IS NOT NULL
            )
        ) THEN RAISE(
            ABORT, 'stanchion_push: limits names an unknown semaphore: stanchion semaphores resize NAME N makes it'
        )
    END;
    INSERT INTO stanchion_queues (name, <queue_columns>)
    SELECT NEW.queue, <queue_values>
    WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues AS known WHERE known.name = NEW.queue);
    UPDATE stanchion_queues SET uses_slots = 1
    WHERE name = NEW.queue AND NOT uses_slots AND (
        NEW.order_key IS NOT NULL OR json_array_length(<limits>) > 0 OR (ordered_by = 'tenant' AND NEW.tenant IS NOT NULL)
    );
    INSERT INTO stanchion_counter_events (queue, what, n)
    SELECT NEW.queue, 'pushed', 1
    WHERE NOT EXISTS (
        SELECT 1 FROM stanchion_jobs AS taken WHERE taken.queue = NEW.queue AND taken."key" = NEW."key"
    );
    -- Only where the key is free; a clause for conflicts would give way to the one of the caller's INSERT.
    INSERT INTO stanchion_jobs (<columns>)
    SELECT
        -- A UUID of version 7, whose random part begins with a number above those of all live jobs.
        printf(
            '%08x-%04x-7%03x-%04x-%s', clock.millis >> 16, clock.millis & 65535, (clock.number >> 14) & 4095,
            32768 | (clock.number & 16383), lower(hex(randomblob(6)))
        ),
        NEW.queue, <unlaned>, '<queued>', coalesce(NEW.priority, 0), coalesce(NEW.priority, 0),
        CASE
            WHEN NEW.delay IS NOT NULL THEN clock.millis * 1000 + CAST(NEW.delay * 1000000 AS INTEGER)
            WHEN NEW.run_at IS NULL THEN clock.millis * 1000
            WHEN typeof(NEW.run_at) = 'text'
                THEN CAST(round((julianday(NEW.run_at) - 2440587.5) * 86400000.0) AS INTEGER) * 1000
            ELSE CAST(round(NEW.run_at * 1000000.0) AS INTEGER)
        END,
        clock.millis * 1000,
        CASE
            WHEN NEW.payload IS NOT NULL THEN <payload>
            WHEN NEW.args IS NULL THEN '{"args":[]}'
            WHEN json_type(<args>) = 'array' THEN '{"args":' || <args> || '}'
            ELSE '{"args":[],"kwargs":' || <args> || '}'
        END,
        NEW.task,
        CASE WHEN EXISTS (SELECT 1 FROM json_each(<headers>)) THEN <headers> END,
        NEW.tenant, NEW."key",
        coalesce(NEW.order_key, (
            SELECT NEW.tenant FROM stanchion_queues AS known WHERE known.name = NEW.queue AND known.ordered_by = 'tenant'
        )),
        CASE WHEN json_array_length(<limits>) > 0 THEN (
            SELECT '{"hold":' || json_group_array(name) || '}'
            FROM (SELECT DISTINCT value AS name FROM json_each(<limits>) ORDER BY value)
        ) END,
        coalesce(NEW.max_attempts, <max_attempts>)<each spans>, NEW.<it><end>
    FROM (
        SELECT
            CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) AS millis,
            coalesce((SELECT max(rowid) FROM stanchion_jobs), 0) + 1 AS number
    ) AS clock
    WHERE NOT EXISTS (
        SELECT 1 FROM stanchion_jobs AS taken WHERE taken.queue = NEW.queue AND taken."key" = NEW."key"
    );
END
