CREATE /*M! OR REPLACE */ PROCEDURE stanchion_push(
    IN queue LONGTEXT <text>, IN payload LONGTEXT <text>, IN options LONGTEXT <text>, OUT id CHAR(36) <text>
)
MODIFIES SQL DATA SQL SECURITY DEFINER
BEGIN
    DECLARE given, content, own_headers, slots, value LONGTEXT <text>;
    DECLARE name, kind, <each names>own_<it>, <end>ordered_by, semaphore LONGTEXT <text>;
    DECLARE refused LONGTEXT <text>;
    DECLARE own_priority SMALLINT DEFAULT 0;
    DECLARE own_attempts INT DEFAULT <max_attempts>;
    DECLARE <each spans>own_<it>, <end>seconds DOUBLE;
    DECLARE micros, due, former BIGINT;
    DECLARE named DATETIME(6);
    DECLARE job, holder CHAR(36) <text>;
    DECLARE n, known, arguments, elements INT DEFAULT 0;
    DECLARE using_slots, taken BOOLEAN;
    -- The class of unprintable characters, spelled without a backslash, whose meaning depends on sql_mode.
    DECLARE unprintable VARCHAR(60) <text> DEFAULT CONCAT('(?! )[', CHAR(92), 'p{C}', CHAR(92), 'p{Z}]');
    DECLARE moment VARCHAR(200) <text> DEFAULT
        '^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?(Z|[+-][0-9]{2}:[0-9]{2})$';

    -- Rows are read by SELECT ... INTO: under REPEATABLE READ, a subquery of SET or IF would lock them.
    SET former = LAST_INSERT_ID();
    -- Microseconds since 1970 UTC; they ascend within a session, also where the clock stands still, as in a trigger.
    SET micros = <clock>;
    IF @stanchion_last BETWEEN micros AND micros + 1000000 THEN
        SET micros = @stanchion_last + 1;
    END IF;
    SET due = micros;

    IF queue IS NULL OR CHAR_LENGTH(queue) NOT BETWEEN 1 AND <max_name> OR queue REGEXP unprintable THEN
        SET refused = 'queue must be 1 to <max_name> printable characters';
    ELSEIF queue REGEXP '^.+#(0|[1-9][0-9]*)$' AND SUBSTRING_INDEX(queue, '#', -1) + 0 < <max_partitions> THEN
        SET refused = 'queue is named like a partition: name the queue itself, without # and number';
    END IF;

    IF options IS NOT NULL AND JSON_VALID(options) AND JSON_TYPE(options) = 'OBJECT' THEN
        SET given = JSON_KEYS(options);
    ELSEIF options IS NOT NULL THEN
        SET refused = 'options must be a JSON object, such as {"priority": 20}';
    END IF;
    WHILE refused IS NULL AND n < COALESCE(JSON_LENGTH(given), 0) DO
        SET name = JSON_UNQUOTE(JSON_EXTRACT(given, CONCAT('$[', n, ']'))), n = n + 1;
        IF name NOT IN ('args', <options>) THEN
            SET refused = CONCAT('unknown option ', LEFT(name, 60)), kind = 'NULL';
        ELSE
            SET value = JSON_EXTRACT(options, CONCAT('$.', name)), kind = JSON_TYPE(value);
        END IF;
        IF kind <> 'NULL' THEN
            CASE
                WHEN name IN (<names>) THEN
                    SET value = JSON_UNQUOTE(value);
                    IF kind <> 'STRING' OR CHAR_LENGTH(value) NOT BETWEEN 1 AND <max_name>
                        OR value REGEXP unprintable
                    THEN
                        SET refused = CONCAT(name, ' must be 1 to <max_name> printable characters');
                    <each names>ELSEIF name = '<it>' THEN SET own_<it> = value;
                    <end>END IF;
                WHEN name = 'args' THEN
                    SET arguments = 1, content = CASE kind
                        WHEN 'ARRAY' THEN CONCAT('{"args":', value, '}')
                        WHEN 'OBJECT' THEN CONCAT('{"args":[],"kwargs":', value, '}')
                    END;
                    IF content IS NULL THEN
                        SET refused = 'args must be a JSON array of arguments, or an object of arguments by name';
                    END IF;
                WHEN name = 'priority' THEN
                    IF kind <> 'INTEGER' OR value + 0 NOT BETWEEN <min_priority> AND <max_priority> THEN
                        SET refused = 'priority must be a whole number from <min_priority> to <max_priority>';
                    ELSE
                        SET own_priority = value;
                    END IF;
                WHEN name = 'max_attempts' THEN
                    IF kind <> 'INTEGER' OR value + 0 NOT BETWEEN 1 AND <most_attempts> THEN
                        SET refused = 'max_attempts must be a whole number from 1 to <most_attempts>';
                    ELSE
                        SET own_attempts = value;
                    END IF;
                WHEN name IN ('delay', <spans>) THEN
                    IF kind NOT IN ('INTEGER', 'DOUBLE', 'DECIMAL') OR value + 0 NOT BETWEEN 0 AND <longest_delay> THEN
                        SET refused = CONCAT(name, ' must be from 0 seconds to 100 years');
                    ELSEIF name = 'delay' THEN
                        SET seconds = value;
                    ELSEIF value + 0 = 0 THEN
                        SET refused = CONCAT(name, ' must be more than 0 seconds');
                    <each spans>ELSEIF name = '<it>' THEN
                        SET own_<it> = value;
                    <end>END IF;
                WHEN name = 'run_at' THEN
                    SET value = JSON_UNQUOTE(value);
                    IF kind IN ('INTEGER', 'DOUBLE', 'DECIMAL') AND value + 0 BETWEEN -62135510400 AND 253402128000 THEN
                        SET due = FLOOR(CAST(value AS DECIMAL(30, 6)) * 1000000);
                    ELSEIF kind = 'STRING' AND value REGEXP moment THEN
                        SET named = CAST(REPLACE(
                            LEFT(value, CHAR_LENGTH(value) - IF(RIGHT(value, 1) = 'Z', 1, 6)), 'T', ' '
                        ) AS DATETIME(6));
                        SET due = TIMESTAMPDIFF(MICROSECOND, '1970-01-01', named);
                        IF RIGHT(value, 1) <> 'Z' THEN
                            SET due = due - IF(LEFT(RIGHT(value, 6), 1) = '-', -1, 1) * 60000000
                                * (60 * LEFT(RIGHT(value, 5), 2) + RIGHT(value, 2));
                        END IF;
                    ELSE
                        SET due = NULL;
                    END IF;
                    IF due IS NULL THEN
                        SET refused = 'run_at must be such as "2030-01-31T08:00:00Z", or seconds since 1970';
                    ELSEIF JSON_TYPE(JSON_EXTRACT(options, '$.delay')) <> 'NULL' THEN
                        SET refused = 'give run_at or delay, not both';
                    END IF;
                WHEN name = 'headers' THEN
                    IF kind <> 'OBJECT' OR CHAR_LENGTH(value) > <max_headers> THEN
                        SET refused = 'headers must be a JSON object of at most <max_headers> characters';
                    ELSEIF JSON_LENGTH(value) > 0 THEN
                        SET own_headers = value;
                    END IF;
                ELSE -- limits
                    IF kind <> 'ARRAY' OR JSON_LENGTH(value) > <max_limits> THEN
                        SET refused = 'limits must be a JSON array of at most <max_limits> names of semaphores';
                    ELSE
                        WHILE refused IS NULL AND elements < JSON_LENGTH(value) DO
                            SET kind = JSON_TYPE(JSON_EXTRACT(value, CONCAT('$[', elements, ']')));
                            SET semaphore = JSON_UNQUOTE(JSON_EXTRACT(value, CONCAT('$[', elements, ']')));
                            SELECT COUNT(*) INTO known FROM stanchion_slots AS slot
                            WHERE slot.kind = '<semaphore>' AND slot.queue = '' AND slot.name = semaphore
                                AND slot.capacity IS NOT NULL;
                            IF kind <> 'STRING' THEN
                                SET refused = 'limits must be a JSON array of names of semaphores, as texts';
                            ELSEIF known = 0 THEN
                                SET refused = CONCAT('no semaphore ', LEFT(semaphore, 60), ', make it first');
                            END IF;
                            SET elements = elements + 1;
                        END WHILE;
                        SET semaphore = NULL;
                        WHILE refused IS NULL AND elements > 0 DO
                            -- Those in order, each once: the least that comes behind the last one.
                            SET semaphore = (
                                SELECT MIN(listed.name)
                                FROM JSON_TABLE(value, '$[*]' COLUMNS (name VARCHAR(200) <text> PATH '$')) AS listed
                                WHERE semaphore IS NULL OR listed.name > semaphore
                            );
                            IF semaphore IS NULL THEN
                                SET elements = 0;
                            ELSE
                                SET slots = CONCAT_WS(',', slots, JSON_QUOTE(semaphore));
                            END IF;
                        END WHILE;
                    END IF;
            END CASE;
        END IF;
    END WHILE;

    IF refused IS NULL AND arguments AND (own_task IS NULL OR payload IS NOT NULL) THEN
        SET refused = 'args are the arguments of a task: give its name as task, and no payload';
    ELSEIF refused IS NULL AND NOT arguments THEN
        SET content = IF(payload IS NULL AND own_task IS NOT NULL, '{"args":[]}', payload);
        IF content IS NULL OR NOT JSON_VALID(content) THEN
            SET refused = 'the payload must be JSON, nested at most 31 deep, such as {"id": 1}';
        ELSEIF own_task IS NOT NULL AND NOT COALESCE(
            JSON_TYPE(content) = 'OBJECT' AND JSON_TYPE(JSON_EXTRACT(content, '$.args')) = 'ARRAY'
                AND COALESCE(JSON_TYPE(JSON_EXTRACT(content, '$.kwargs')), 'OBJECT') = 'OBJECT'
                AND JSON_LENGTH(content) = IF(JSON_EXTRACT(content, '$.kwargs') IS NULL, 1, 2),
            FALSE
        ) THEN
            SET refused = 'the payload of a task must be {"args": [...], "kwargs": {...}}; or give args';
        END IF;
    END IF;
    IF refused IS NULL AND (own_key IS NOT NULL OR own_order_key IS NOT NULL) AND EXISTS (
        SELECT 1 FROM stanchion_values AS layout
        WHERE layout.kind = 'partitions' AND layout.name = queue AND JSON_VALUE(layout.text, '$.keys') <> 0
    ) THEN
        SET refused = 'a queue with partitions takes no key and no order_key from SQL';
    END IF;
    IF refused IS NULL AND LENGTH(content) > <max_payload> THEN
        SET refused = 'the payload takes more than <max_payload> bytes; store it elsewhere';
    END IF;
    IF refused IS NOT NULL THEN
        SET refused = CONCAT('stanchion_push: ', refused);
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = refused;
    END IF;

    SET due = due + COALESCE(FLOOR(seconds * 1000000), 0);
    SET slots = CONCAT('{"hold":[', slots, ']}');
    SELECT MAX(settings.uses_slots), MAX(settings.ordered_by) INTO known, ordered_by
    FROM stanchion_queues AS settings WHERE settings.name = queue;
    IF ordered_by = 'tenant' THEN
        SET own_order_key = COALESCE(own_order_key, own_tenant);
    END IF;
    SET using_slots = slots IS NOT NULL OR own_order_key IS NOT NULL;
    IF known IS NULL OR (using_slots AND NOT known) THEN
        -- One lock from the start: two that share it, and then both write, would deadlock.
        INSERT INTO stanchion_queues (name, uses_slots, <queue_columns>) VALUES (queue, using_slots, <queue_values>)
        ON DUPLICATE KEY UPDATE uses_slots = stanchion_queues.uses_slots OR using_slots;
    END IF;

    -- A UUID of version 7, whose random part begins with the microseconds.
    SET @stanchion_last = micros, job = MD5(CONCAT(UUID(), RAND()));
    SET job = LOWER(CONCAT(
        INSERT(LPAD(HEX(micros DIV 1000), 12, '0'), 9, 0, '-'), '-7', LPAD(HEX(MOD(micros, 1000) * 4096 DIV 1000), 3, '0'),
        '-', HEX(8 + CONV(LEFT(job, 1), 16, 10) DIV 4), SUBSTRING(job, 2, 3), '-', SUBSTRING(job, 5, 12)
    ));
    SET id = NULL;
    WHILE id IS NULL DO
        -- An insert that meets a key locks the gap before it: so none is tried if the key is known to be taken. The job
        -- that has the key is locked, so that it does not end before the caller's transaction.
        IF own_key IS NOT NULL THEN
            SELECT MAX(known.id) INTO holder FROM stanchion_jobs AS known FORCE INDEX (stanchion_jobs_key)
            WHERE known.`key` = own_key AND known.queue = queue;
        END IF;
        IF holder IS NOT NULL THEN
            SET id = (
                SELECT known.id FROM stanchion_jobs AS known FORCE INDEX (PRIMARY)
                WHERE known.id = holder AND known.queue = queue AND known.`key` = own_key LOCK IN SHARE MODE
            );
        END IF;
        IF id IS NULL THEN
            BEGIN
                DECLARE CONTINUE HANDLER FOR 1062 SET taken = TRUE;
                SET taken = FALSE;
                INSERT INTO stanchion_jobs (<columns>)
                VALUES (
                    job, queue, <unlaned>, '<queued>', own_priority, own_priority, due, micros, content, own_task,
                    own_headers, own_tenant, own_key, own_order_key, slots, own_attempts<each spans>,
                    own_<it><end>
                );
            END;
            IF taken THEN
                SET id = (
                    SELECT known.id FROM stanchion_jobs AS known FORCE INDEX (stanchion_jobs_key)
                    WHERE known.`key` = own_key AND known.queue = queue LOCK IN SHARE MODE
                );
            ELSE
                INSERT INTO stanchion_counter_events (queue, what, n) VALUES (queue, 'pushed', 1);
                SET id = job;
            END IF;
        END IF;
    END WHILE;
    SET former = LAST_INSERT_ID(former);
END
