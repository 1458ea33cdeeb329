CREATE OR REPLACE FUNCTION <name>(
    queue text,
    payload jsonb DEFAULT NULL,
    task text DEFAULT NULL,
    args jsonb DEFAULT NULL,
    <parameters>,
    notify boolean DEFAULT true
) RETURNS uuid
LANGUAGE plpgsql VOLATILE
-- A plan made while there were few jobs would read them all later.
SET enable_seqscan = off
AS $stanchion$
#variable_conflict use_column
DECLARE
    names CONSTANT text[] := ARRAY[queue<each names>, <it><end>];
    name_of CONSTANT text[] := ARRAY['queue', <names>];
    content text;
    slots text;
    unknown text;
    uses_slots boolean;
    ordered_by text;
    own_order_key text := order_key;
    micros bigint;
    due bigint;
    job uuid;
    holder uuid;
    refused text;
BEGIN
    FOR n IN 1..cardinality(names) LOOP
        IF (n = 1 OR names[n] IS NOT NULL)
            AND NOT coalesce(length(names[n]) BETWEEN 1 AND <max_name> AND names[n] !~ '[<unprintable>]', false)
        THEN
            refused := name_of[n] || ' must be 1 to <max_name> printable characters';
        END IF;
    END LOOP;

    IF CAST(substring(queue FROM '^.+#(0|[1-9][0-9]{0,8})$') AS integer) < <max_partitions> THEN
        refused := 'queue is named like a partition: name the queue itself, without # and number';
    END IF;

    IF (key IS NOT NULL OR order_key IS NOT NULL) AND EXISTS (
        SELECT FROM stanchion_values AS layout
        WHERE layout.kind = 'partitions' AND layout.name = stanchion_push.queue
            AND CAST(layout.text AS jsonb) -> 'keys' <> '0'
    ) THEN
        refused := 'a queue with partitions takes no key and no order_key from SQL, as they decide the partition';
    END IF;

    IF task IS NULL THEN
        content := CAST(payload AS text);
        IF args IS NOT NULL THEN
            refused := 'args are the arguments of a task: give its name as task, or else a payload';
        ELSIF payload IS NULL THEN
            refused := 'give the payload as JSON, such as ''{"id": 1}'', or a task with its args';
        END IF;
    ELSIF args IS NOT NULL THEN
        content := CASE jsonb_typeof(args)
            WHEN 'array' THEN jsonb_build_object('args', args)
            WHEN 'object' THEN jsonb_build_object('args', '[]'::jsonb, 'kwargs', args)
        END;
        IF payload IS NOT NULL THEN
            refused := 'give payload or args, not both';
        ELSIF content IS NULL THEN
            refused := 'args must be a JSON array of arguments, or an object of arguments by name';
        END IF;
    ELSE
        content := coalesce(payload, '{"args": []}');
        IF jsonb_typeof(payload) <> 'object' OR payload IS NOT NULL AND NOT coalesce(
            jsonb_typeof(payload -> 'args') = 'array' AND coalesce(jsonb_typeof(payload -> 'kwargs'), 'object') = 'object'
                AND payload - 'args' - 'kwargs' = '{}', false
        ) THEN
            refused := 'the payload of a task must be {"args": [...], "kwargs": {...}}; or give args';
        END IF;
    END IF;
    IF octet_length(content) > <max_payload> THEN
        refused := 'the payload takes more than <max_payload> bytes; store it elsewhere and pass a reference';
    END IF;

    IF headers IS NOT NULL AND (jsonb_typeof(headers) <> 'object' OR length(CAST(headers AS text)) > <max_headers>) THEN
        refused := 'headers must be a JSON object of at most <max_headers> characters';
    END IF;
    IF NOT coalesce(priority BETWEEN <min_priority> AND <max_priority>, true) THEN
        refused := 'priority must be from <min_priority> to <max_priority>';
    END IF;
    IF run_at IS NOT NULL AND delay IS NOT NULL THEN
        refused := 'give run_at or delay, not both';
    ELSIF NOT coalesce(run_at >= '0001-01-02 00:00Z' AND run_at < '9999-12-31 00:00Z', true) THEN
        refused := 'run_at must be in the years 1 to 9999';
    ELSIF NOT coalesce(delay >= 0 AND delay <= <longest_delay>, true) THEN
        refused := 'delay must be from 0 seconds to 100 years';
    END IF;
    IF NOT coalesce(max_attempts BETWEEN 1 AND <most_attempts>, true) THEN
        refused := 'max_attempts must be from 1 to <most_attempts>';
    END IF;
    <each spans>IF NOT coalesce(<it> > 0 AND <it> <= <longest_delay>, true) THEN
        refused := '<it> must be more than 0 seconds, and at most 100 years';
    END IF;
    <end>

    IF jsonb_typeof(limits) = 'array' AND jsonb_array_length(limits) > 0 THEN
        IF jsonb_array_length(limits) > <max_limits>
            OR EXISTS (SELECT FROM jsonb_array_elements(limits) AS given (name) WHERE jsonb_typeof(given.name) <> 'string')
        THEN
            refused := 'limits must be at most <max_limits> names of semaphores, as texts';
        ELSE
            SELECT
                '{"hold":[' || string_agg(CAST(to_jsonb(given.name) AS text), ',' ORDER BY given.name COLLATE "C") || ']}',
                min(given.name) FILTER (WHERE NOT EXISTS (
                    SELECT FROM stanchion_slots AS slot
                    WHERE slot.kind = '<semaphore>' AND slot.queue = '' AND slot.name = given.name
                        AND slot.capacity IS NOT NULL
                ))
            INTO slots, unknown
            FROM (SELECT DISTINCT value AS name FROM jsonb_array_elements_text(limits)) AS given;
            IF unknown IS NOT NULL THEN
                refused := 'no semaphore ''' || unknown || ''': stanchion semaphores resize NAME N makes it';
            END IF;
        END IF;
    ELSIF jsonb_typeof(limits) <> 'array' THEN
        refused := 'limits must be a JSON array of names of semaphores, such as ''["smtp"]''';
    END IF;

    IF refused IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'invalid_parameter_value', MESSAGE = 'stanchion_push: ' || refused;
    END IF;

    SELECT known.uses_slots, known.ordered_by INTO uses_slots, ordered_by
    FROM stanchion_queues AS known WHERE known.name = stanchion_push.queue;
    IF NOT FOUND THEN
        INSERT INTO stanchion_queues (name, <queue_columns>) VALUES (stanchion_push.queue, <queue_values>)
        ON CONFLICT DO NOTHING;
    END IF;
    IF ordered_by = 'tenant' THEN
        own_order_key := coalesce(order_key, tenant);
    END IF;
    IF NOT coalesce(uses_slots, false) AND (own_order_key IS NOT NULL OR slots IS NOT NULL) THEN
        UPDATE stanchion_queues AS known SET uses_slots = true
        WHERE known.name = stanchion_push.queue AND NOT known.uses_slots;
    END IF;

    -- A UUID of version 7, whose random part begins with the microseconds: ids of one session ascend.
    micros := extract(epoch FROM clock_timestamp()) * 1000000;
    due := coalesce(
        CAST(extract(epoch FROM run_at) * 1000000 AS bigint), micros + CAST(floor(delay * 1000000) AS bigint), micros
    );
    job := encode(substring(int8send(micros / 1000) FROM 3), 'hex')
        || '7' || lpad(to_hex(mod(micros, 1000) * 4096 / 1000), 3, '0')
        || right(CAST(gen_random_uuid() AS text), 17);
    LOOP
        INSERT INTO stanchion_jobs (<columns>)
        VALUES (
            job, stanchion_push.queue, <unlaned>, '<queued>', coalesce(stanchion_push.priority, 0),
            coalesce(stanchion_push.priority, 0), due, micros, content, stanchion_push.task,
            CAST(nullif(stanchion_push.headers, '{}') AS text), stanchion_push.tenant, stanchion_push.key,
            own_order_key, slots, coalesce(stanchion_push.max_attempts, <max_attempts>)<each spans>,
            stanchion_push.<it><end>
        )
        ON CONFLICT DO NOTHING;
        EXIT WHEN FOUND;
        -- Locked, so that the job that has the key does not end before the caller's transaction.
        SELECT taken.id INTO holder FROM stanchion_jobs AS taken
        WHERE taken.queue = stanchion_push.queue AND taken.key = stanchion_push.key FOR UPDATE;
        IF FOUND THEN
            RETURN holder;
        END IF;
    END LOOP;
    INSERT INTO stanchion_counter_events (queue, what, n) VALUES (stanchion_push.queue, 'pushed', 1);
    IF notify THEN
        PERFORM pg_notify('<channel>', queue);
    END IF;
    RETURN job;
END
$stanchion$
;;
DO $stanchion$
BEGIN
    -- With the rights of its owner, on the tables of this schema, whatever the caller's search_path and temporary tables.
    EXECUTE 'ALTER FUNCTION <name>(<types>) SECURITY DEFINER SET search_path = '
        || quote_ident(current_schema()) || ', pg_temp';
END
$stanchion$
