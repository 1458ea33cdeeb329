CREATE TABLE stanchion_meta (
	version INTEGER NOT NULL, 
	identity VARCHAR(40), 
	PRIMARY KEY (version)
);

CREATE TABLE stanchion_jobs (
	id VARCHAR(36) NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	lane INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	priority SMALLINT NOT NULL, 
	rank SMALLINT NOT NULL, 
	run_at BIGINT NOT NULL, 
	enqueued_at BIGINT NOT NULL, 
	payload TEXT NOT NULL, 
	items INTEGER, 
	task VARCHAR(200), 
	headers TEXT, 
	tenant VARCHAR(200), 
	"key" VARCHAR(200), 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow_root VARCHAR(36), 
	flow_node VARCHAR(36), 
	flow_index INTEGER, 
	flow_after VARCHAR(40), 
	origin VARCHAR(36), 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	failures INTEGER DEFAULT '0' NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT, 
	expires FLOAT, 
	errors TEXT, 
	lost_leases INTEGER DEFAULT '0' NOT NULL, 
	lost_in_all INTEGER DEFAULT '0' NOT NULL, 
	dead_from VARCHAR(200), 
	dead_at BIGINT, 
	dead_attempts INTEGER, 
	progress FLOAT, 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	delivery VARCHAR(10), 
	lease_until BIGINT, 
	started_at BIGINT, 
	cancel_requested BOOLEAN DEFAULT 0 NOT NULL, 
	slots_held INTEGER DEFAULT '0' NOT NULL, 
	order_hold VARCHAR(64), 
	slots_hold VARCHAR(64), 
	waits_kind VARCHAR(10), 
	waits_queue VARCHAR(200), 
	waits_name VARCHAR(200), 
	waits_since BIGINT, 
	promised INTEGER DEFAULT '0' NOT NULL, 
	arrival_payload TEXT, 
	trail TEXT, 
	entry_payload TEXT, 
	past_waits TEXT, 
	kept_payloads TEXT, 
	overdue_at BIGINT GENERATED ALWAYS AS (enqueued_at + expires * 1000000) STORED, 
	PRIMARY KEY (id)
);

CREATE TABLE stanchion_history (
	id VARCHAR(36) NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	lane INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	priority SMALLINT NOT NULL, 
	run_at BIGINT NOT NULL, 
	enqueued_at BIGINT NOT NULL, 
	payload TEXT NOT NULL, 
	items INTEGER, 
	task VARCHAR(200), 
	headers TEXT, 
	tenant VARCHAR(200), 
	"key" VARCHAR(200), 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow_root VARCHAR(36), 
	flow_node VARCHAR(36), 
	flow_index INTEGER, 
	flow_after VARCHAR(40), 
	origin VARCHAR(36), 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	failures INTEGER DEFAULT '0' NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT, 
	expires FLOAT, 
	errors TEXT, 
	dead_from VARCHAR(200), 
	dead_at BIGINT, 
	dead_attempts INTEGER, 
	progress FLOAT, 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	started_at BIGINT, 
	arrival_payload TEXT, 
	trail TEXT, 
	entry_payload TEXT, 
	past_waits TEXT, 
	kept_payloads TEXT, 
	finished_at BIGINT NOT NULL, 
	result TEXT, 
	PRIMARY KEY (id)
);

CREATE TABLE stanchion_queues (
	name VARCHAR(200) NOT NULL, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	max_rate FLOAT, 
	max_running INTEGER, 
	lanes INTEGER NOT NULL, 
	lanes_per_tenant INTEGER NOT NULL, 
	history_ttl FLOAT NOT NULL, 
	dead_letter VARCHAR(200), 
	lease FLOAT NOT NULL, 
	uses_lanes BOOLEAN DEFAULT 0 NOT NULL, 
	uses_slots BOOLEAN DEFAULT 0 NOT NULL, 
	expires FLOAT, 
	expires_with_jobs BOOLEAN DEFAULT 0 NOT NULL, 
	timeout FLOAT, 
	ordered BOOLEAN DEFAULT 0 NOT NULL, 
	ordered_by VARCHAR(10), 
	jobs_expire FLOAT, 
	history_ttl_done FLOAT, 
	history_ttl_dead FLOAT, 
	history_ttl_cancelled FLOAT, 
	history_max INTEGER, 
	declared TEXT, 
	lanes_seen TEXT, 
	partitioned BOOLEAN DEFAULT 0 NOT NULL, 
	schema_after INTEGER, 
	last_lane INTEGER DEFAULT '-1' NOT NULL, 
	has_dead_letters BOOLEAN DEFAULT 0 NOT NULL, 
	rate_tokens FLOAT NOT NULL, 
	rate_at BIGINT NOT NULL, 
	active_events BIGINT DEFAULT '0' NOT NULL, 
	active_at BIGINT DEFAULT '0' NOT NULL, 
	head VARCHAR(36), 
	PRIMARY KEY (name)
);

CREATE TABLE stanchion_counter_events (
	id INTEGER NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	what VARCHAR(20) NOT NULL, 
	n BIGINT NOT NULL, 
	PRIMARY KEY (id)
);

CREATE TABLE stanchion_counts (
	queue VARCHAR(200) NOT NULL, 
	what VARCHAR(20) NOT NULL, 
	n BIGINT NOT NULL, 
	PRIMARY KEY (queue, what)
);

CREATE TABLE stanchion_workers (
	id VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	pid INTEGER NOT NULL, 
	queues TEXT NOT NULL, 
	threads INTEGER NOT NULL, 
	heartbeat FLOAT NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	started_at BIGINT NOT NULL, 
	last_seen_at BIGINT NOT NULL, 
	began TEXT, 
	serving TEXT, 
	times TEXT, 
	PRIMARY KEY (id)
);

CREATE TABLE stanchion_slots (
	kind VARCHAR(10) NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	name VARCHAR(450) NOT NULL, 
	capacity INTEGER, 
	used INTEGER NOT NULL, 
	waited BOOLEAN DEFAULT 0 NOT NULL, 
	tokens FLOAT, 
	filled_at BIGINT, 
	promised BIGINT, 
	promised_again BIGINT, 
	declared INTEGER, 
	PRIMARY KEY (kind, queue, name)
)
 WITHOUT ROWID;

CREATE TABLE stanchion_flow_nodes (
	id VARCHAR(36) NOT NULL, 
	root VARCHAR(36) NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	parent VARCHAR(60), 
	size INTEGER NOT NULL, 
	closed BOOLEAN NOT NULL, 
	ended INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	created_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	on_failure TEXT, 
	definition TEXT, 
	PRIMARY KEY (id)
);

CREATE TABLE stanchion_flow_ends (
	node VARCHAR(36) NOT NULL, 
	member_index INTEGER NOT NULL, 
	job VARCHAR(36), 
	child VARCHAR(36), 
	state VARCHAR(10) NOT NULL, 
	result TEXT, 
	PRIMARY KEY (node, member_index)
);

CREATE TABLE stanchion_values (
	kind VARCHAR(40) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version BIGINT NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (kind, name)
);

CREATE TABLE stanchion_stage (
	write VARCHAR(200) NOT NULL, 
	attempt VARCHAR(64) NOT NULL, 
	id VARCHAR(36) NOT NULL, 
	staged_at BIGINT NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	payload TEXT NOT NULL, 
	task VARCHAR(200), 
	priority SMALLINT DEFAULT '0' NOT NULL, 
	run_at BIGINT, 
	delay BIGINT DEFAULT '0' NOT NULL, 
	headers TEXT, 
	tenant VARCHAR(200), 
	"key" VARCHAR(200), 
	on_duplicate VARCHAR(10) DEFAULT 'return' NOT NULL, 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow_root VARCHAR(36), 
	flow_node VARCHAR(36), 
	flow_index INTEGER, 
	flow_after VARCHAR(40), 
	origin VARCHAR(36), 
	max_attempts INTEGER DEFAULT '25' NOT NULL, 
	timeout FLOAT, 
	expires FLOAT, 
	lane INTEGER DEFAULT '-1' NOT NULL, 
	waits_kind VARCHAR(10), 
	waits_queue VARCHAR(200), 
	waits_name VARCHAR(200), 
	trail TEXT, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	errors TEXT, 
	dead_from VARCHAR(200), 
	key_ttl FLOAT, 
	enqueued_at BIGINT, 
	PRIMARY KEY (write, attempt, id)
)
 WITHOUT ROWID;

CREATE TABLE stanchion_stage_prepared (
	write VARCHAR(200) NOT NULL, 
	attempt VARCHAR(64) NOT NULL, 
	first VARCHAR(36) NOT NULL, 
	staged_at BIGINT NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	jobs INTEGER NOT NULL, 
	rows BLOB NOT NULL, 
	PRIMARY KEY (write, attempt, first)
);

CREATE INDEX stanchion_flow_nodes_finished ON stanchion_flow_nodes (finished_at);

CREATE INDEX stanchion_flow_nodes_root ON stanchion_flow_nodes (root);

CREATE INDEX stanchion_history_ended ON stanchion_history (queue, finished_at);

CREATE INDEX stanchion_history_flow ON stanchion_history (flow_root, flow_node) WHERE flow_root IS NOT NULL;

CREATE INDEX stanchion_history_key ON stanchion_history (queue, "key", finished_at) WHERE "key" IS NOT NULL;

CREATE INDEX stanchion_history_letters ON stanchion_history (dead_from, id) WHERE dead_from IS NOT NULL;

CREATE INDEX stanchion_history_page ON stanchion_history (queue, id);

CREATE INDEX stanchion_jobs_chunks ON stanchion_jobs (queue) WHERE items IS NOT NULL;

CREATE INDEX stanchion_jobs_flow ON stanchion_jobs (flow_root, flow_node) WHERE flow_root IS NOT NULL;

CREATE INDEX stanchion_jobs_held ON stanchion_jobs (id) WHERE slots_held > 0;

CREATE INDEX stanchion_jobs_lease ON stanchion_jobs (lease_until) WHERE lease_until IS NOT NULL;

CREATE INDEX stanchion_jobs_letters ON stanchion_jobs (dead_from, id) WHERE dead_from IS NOT NULL;

CREATE INDEX stanchion_jobs_order ON stanchion_jobs (queue, order_key, enqueued_at, id) WHERE order_key IS NOT NULL;

CREATE INDEX stanchion_jobs_overdue ON stanchion_jobs (overdue_at) WHERE expires IS NOT NULL;

CREATE INDEX stanchion_jobs_ready ON stanchion_jobs (queue, lane, rank, run_at, id) WHERE state = 'queued';

CREATE INDEX stanchion_jobs_running ON stanchion_jobs (queue, worker) WHERE state = 'running';

CREATE INDEX stanchion_jobs_waiting ON stanchion_jobs (waits_kind, waits_queue, waits_name, waits_since, id) WHERE waits_kind IS NOT NULL;

CREATE UNIQUE INDEX stanchion_jobs_key ON stanchion_jobs (queue, "key") WHERE "key" IS NOT NULL;

CREATE VIEW stanchion_push AS
SELECT
    id, queue, payload, task, NULL AS args, priority, run_at / 1000000.0 AS run_at, NULL AS delay, tenant, "key",
    order_key, limits, headers, max_attempts, timeout, expires
FROM stanchion_jobs WHERE rowid = (SELECT max(rowid) FROM stanchion_jobs);

CREATE TRIGGER stanchion_push_insert INSTEAD OF INSERT ON stanchion_push
BEGIN
    SELECT CASE
        WHEN NEW.id IS NOT NULL THEN RAISE(ABORT, 'stanchion_push: leave out the id, the queue makes it')
        WHEN NOT coalesce(typeof(NEW.queue) = 'text' AND length(NEW.queue) BETWEEN 1 AND 200, 0)
            OR NEW.queue GLOB '*[' || char(1, 45, 31, 127, 45, 160, 173, 45, 173, 1536, 45, 1541, 1564, 45, 1564, 1757, 45, 1757, 1807, 45, 1807, 2192, 45, 2193, 2274, 45, 2274, 5760, 45, 5760, 6158, 45, 6158, 8192, 45, 8207, 8232, 45, 8239, 8287, 45, 8303, 12288, 45, 12288, 57344, 45, 63743, 65279, 45, 65279, 65529, 45, 65531) || ']*'
            THEN RAISE(ABORT, 'stanchion_push: queue must be 1 to 200 printable characters')
        WHEN rtrim(NEW.queue, '0123456789') GLOB '?*#' AND EXISTS (
            SELECT 1 FROM (SELECT substr(NEW.queue, length(rtrim(NEW.queue, '0123456789')) + 1) AS digits)
            WHERE digits = CAST(CAST(digits AS INTEGER) AS TEXT) AND CAST(digits AS INTEGER) < 1024
        ) THEN RAISE(ABORT, 'stanchion_push: queue is named like a partition: name the queue itself, without # and number')
        WHEN NEW."task" IS NOT NULL AND (
            typeof(NEW."task") <> 'text' OR length(NEW."task") NOT BETWEEN 1 AND 200
            OR NEW."task" GLOB '*[' || char(1, 45, 31, 127, 45, 160, 173, 45, 173, 1536, 45, 1541, 1564, 45, 1564, 1757, 45, 1757, 1807, 45, 1807, 2192, 45, 2193, 2274, 45, 2274, 5760, 45, 5760, 6158, 45, 6158, 8192, 45, 8207, 8232, 45, 8239, 8287, 45, 8303, 12288, 45, 12288, 57344, 45, 63743, 65279, 45, 65279, 65529, 45, 65531) || ']*'
        ) THEN RAISE(ABORT, 'stanchion_push: task must be 1 to 200 printable characters')
        WHEN NEW."tenant" IS NOT NULL AND (
            typeof(NEW."tenant") <> 'text' OR length(NEW."tenant") NOT BETWEEN 1 AND 200
            OR NEW."tenant" GLOB '*[' || char(1, 45, 31, 127, 45, 160, 173, 45, 173, 1536, 45, 1541, 1564, 45, 1564, 1757, 45, 1757, 1807, 45, 1807, 2192, 45, 2193, 2274, 45, 2274, 5760, 45, 5760, 6158, 45, 6158, 8192, 45, 8207, 8232, 45, 8239, 8287, 45, 8303, 12288, 45, 12288, 57344, 45, 63743, 65279, 45, 65279, 65529, 45, 65531) || ']*'
        ) THEN RAISE(ABORT, 'stanchion_push: tenant must be 1 to 200 printable characters')
        WHEN NEW."key" IS NOT NULL AND (
            typeof(NEW."key") <> 'text' OR length(NEW."key") NOT BETWEEN 1 AND 200
            OR NEW."key" GLOB '*[' || char(1, 45, 31, 127, 45, 160, 173, 45, 173, 1536, 45, 1541, 1564, 45, 1564, 1757, 45, 1757, 1807, 45, 1807, 2192, 45, 2193, 2274, 45, 2274, 5760, 45, 5760, 6158, 45, 6158, 8192, 45, 8207, 8232, 45, 8239, 8287, 45, 8303, 12288, 45, 12288, 57344, 45, 63743, 65279, 45, 65279, 65529, 45, 65531) || ']*'
        ) THEN RAISE(ABORT, 'stanchion_push: key must be 1 to 200 printable characters')
        WHEN NEW."order_key" IS NOT NULL AND (
            typeof(NEW."order_key") <> 'text' OR length(NEW."order_key") NOT BETWEEN 1 AND 200
            OR NEW."order_key" GLOB '*[' || char(1, 45, 31, 127, 45, 160, 173, 45, 173, 1536, 45, 1541, 1564, 45, 1564, 1757, 45, 1757, 1807, 45, 1807, 2192, 45, 2193, 2274, 45, 2274, 5760, 45, 5760, 6158, 45, 6158, 8192, 45, 8207, 8232, 45, 8239, 8287, 45, 8303, 12288, 45, 12288, 57344, 45, 63743, 65279, 45, 65279, 65529, 45, 65531) || ']*'
        ) THEN RAISE(ABORT, 'stanchion_push: order_key must be 1 to 200 printable characters')
        
        WHEN NEW.args IS NOT NULL AND (NEW.task IS NULL OR NEW.payload IS NOT NULL)
            THEN RAISE(ABORT, 'stanchion_push: args are the arguments of a task: give its name as task, and no payload')
        WHEN NEW.args IS NOT NULL AND NOT (
            json_valid(CAST(NEW.args AS TEXT)) AND CASE WHEN json_valid(CAST(NEW.args AS TEXT)) THEN json_type(CAST(NEW.args AS TEXT)) IN ('array', 'object') END
        ) THEN RAISE(ABORT, 'stanchion_push: args must be a JSON array of arguments, or an object of arguments by name')
        WHEN NEW.args IS NULL AND NEW.task IS NULL AND NOT coalesce(json_valid(CAST(NEW.payload AS TEXT)), 0)
            THEN RAISE(ABORT, 'stanchion_push: the payload must be JSON, such as {"id": 1}')
        WHEN NEW.task IS NOT NULL AND NEW.payload IS NOT NULL AND NOT coalesce(
            CASE WHEN json_valid(CAST(NEW.payload AS TEXT)) THEN
                json_type(CAST(NEW.payload AS TEXT)) = 'object' AND json_type(CAST(NEW.payload AS TEXT), '$.args') = 'array'
                AND coalesce(json_type(CAST(NEW.payload AS TEXT), '$.kwargs'), 'object') = 'object'
                AND (SELECT count(*) FROM json_each(CAST(NEW.payload AS TEXT)) WHERE "key" NOT IN ('args', 'kwargs')) = 0
            END, 0
        ) THEN RAISE(
            ABORT, 'stanchion_push: the payload of a task must be {"args": [...], "kwargs": {...}}; or give args'
        )
        WHEN length(CAST(coalesce(CAST(NEW.payload AS TEXT), CAST(NEW.args AS TEXT)) AS BLOB)) > 1048576 THEN RAISE(
            ABORT, 'stanchion_push: the payload takes more than 1048576 bytes; store it elsewhere and pass a reference'
        )
        WHEN NEW.headers IS NOT NULL AND NOT coalesce(
            CASE WHEN json_valid(CAST(NEW.headers AS TEXT)) THEN json_type(CAST(NEW.headers AS TEXT)) = 'object' END
            AND length(CAST(NEW.headers AS TEXT)) <= 65536, 0
        ) THEN RAISE(ABORT, 'stanchion_push: headers must be a JSON object of at most 65536 characters')
        -- SQLite takes any bytes as text. The first 64 different characters beyond ASCII are looked at, each once: the
        -- rest begins with one, which is replaced everywhere. A claim finds what is behind them.
        WHEN EXISTS (
            WITH RECURSIVE part (rest) AS (
                SELECT ltrim(texts, char(32, 101, 116, 97, 111, 105, 110, 115, 114, 104, 108, 100, 99, 117, 109, 102, 112, 103, 119, 121, 98, 118, 107, 120, 106, 113, 122, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 34, 44, 58, 123, 125, 91, 93, 46, 95, 45, 47, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 35, 36, 37, 38, 39, 40, 41, 42, 43, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 92, 94, 96, 124, 126, 127)) FROM (
                    SELECT NEW.queue || ' ' || coalesce(NEW.task, '') || ' ' || coalesce(NEW.tenant, '') || ' '
                        || coalesce(NEW."key", '') || ' ' || coalesce(NEW.order_key, '') || ' '
                        || coalesce(CAST(NEW.headers AS TEXT), '') || ' ' || coalesce(CAST(NEW.limits AS TEXT), '') || ' '
                        || coalesce(CAST(NEW.payload AS TEXT), CAST(NEW.args AS TEXT), '') AS texts
                ) WHERE texts GLOB '*[^' || char(1, 45, 127) || ']*'
                UNION ALL
                SELECT ltrim(replace(rest, substr(rest, 1, 1), ' '), char(32, 101, 116, 97, 111, 105, 110, 115, 114, 104, 108, 100, 99, 117, 109, 102, 112, 103, 119, 121, 98, 118, 107, 120, 106, 113, 122, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 34, 44, 58, 123, 125, 91, 93, 46, 95, 45, 47, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 33, 35, 36, 37, 38, 39, 40, 41, 42, 43, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90, 92, 94, 96, 124, 126, 127)) FROM part WHERE rest <> ''
                LIMIT 64
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
            AND (typeof(NEW.priority) <> 'integer' OR NEW.priority NOT BETWEEN -100 AND 100)
            THEN RAISE(ABORT, 'stanchion_push: priority must be a whole number from -100 to 100')
        WHEN NEW.max_attempts IS NOT NULL
            AND (typeof(NEW.max_attempts) <> 'integer' OR NEW.max_attempts NOT BETWEEN 1 AND 1000000)
            THEN RAISE(ABORT, 'stanchion_push: max_attempts must be a whole number from 1 to 1000000')
        WHEN NEW.delay IS NOT NULL
            AND (typeof(NEW.delay) NOT IN ('integer', 'real') OR NEW.delay NOT BETWEEN 0 AND 3153600000)
            THEN RAISE(ABORT, 'stanchion_push: delay must be from 0 seconds to 100 years')
        WHEN NEW.timeout IS NOT NULL AND (
            typeof(NEW.timeout) NOT IN ('integer', 'real') OR NEW.timeout <= 0 OR NEW.timeout > 3153600000
        ) THEN RAISE(ABORT, 'stanchion_push: timeout must be more than 0 seconds, and at most 100 years')
        WHEN NEW.expires IS NOT NULL AND (
            typeof(NEW.expires) NOT IN ('integer', 'real') OR NEW.expires <= 0 OR NEW.expires > 3153600000
        ) THEN RAISE(ABORT, 'stanchion_push: expires must be more than 0 seconds, and at most 100 years')
        
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
            CASE WHEN json_valid(CAST(NEW.limits AS TEXT)) THEN
                json_type(CAST(NEW.limits AS TEXT)) = 'array' AND json_array_length(CAST(NEW.limits AS TEXT)) <= 16
            END, 0
        ) THEN RAISE(ABORT, 'stanchion_push: limits must be a JSON array of at most 16 names of semaphores')
        WHEN NEW.limits IS NOT NULL AND EXISTS (
            SELECT 1 FROM json_each(CAST(NEW.limits AS TEXT)) AS given WHERE given.type <> 'text' OR NOT EXISTS (
                SELECT 1 FROM stanchion_slots AS slot
                WHERE slot.kind = 'semaphore' AND slot.queue = '' AND slot.name = given.value
                    AND slot.capacity IS NOT NULL
            )
        ) THEN RAISE(
            ABORT, 'stanchion_push: limits names an unknown semaphore: stanchion semaphores resize NAME N makes it'
        )
    END;
    INSERT INTO stanchion_queues (name, lanes, lanes_per_tenant, history_ttl, lease, rate_tokens, rate_at)
    SELECT NEW.queue, 1, 1, 604800.0, 30.0, 0, 0
    WHERE NOT EXISTS (SELECT 1 FROM stanchion_queues AS known WHERE known.name = NEW.queue);
    UPDATE stanchion_queues SET uses_slots = 1
    WHERE name = NEW.queue AND NOT uses_slots AND (
        NEW.order_key IS NOT NULL OR json_array_length(CAST(NEW.limits AS TEXT)) > 0 OR (ordered_by = 'tenant' AND NEW.tenant IS NOT NULL)
    );
    INSERT INTO stanchion_counter_events (queue, what, n)
    SELECT NEW.queue, 'pushed', 1
    WHERE NOT EXISTS (
        SELECT 1 FROM stanchion_jobs AS taken WHERE taken.queue = NEW.queue AND taken."key" = NEW."key"
    );
    -- Only where the key is free; a clause for conflicts would give way to the one of the caller's INSERT.
    INSERT INTO stanchion_jobs ("id", "queue", "lane", "state", "priority", "rank", "run_at", "enqueued_at", "payload", "task", "headers", "tenant", "key", "order_key", "limits", "max_attempts", "timeout", "expires")
    SELECT
        -- A UUID of version 7, whose random part begins with a number above those of all live jobs.
        printf(
            '%08x-%04x-7%03x-%04x-%s', clock.millis >> 16, clock.millis & 65535, (clock.number >> 14) & 4095,
            32768 | (clock.number & 16383), lower(hex(randomblob(6)))
        ),
        NEW.queue, -1, 'queued', coalesce(NEW.priority, 0), coalesce(NEW.priority, 0),
        CASE
            WHEN NEW.delay IS NOT NULL THEN clock.millis * 1000 + CAST(NEW.delay * 1000000 AS INTEGER)
            WHEN NEW.run_at IS NULL THEN clock.millis * 1000
            WHEN typeof(NEW.run_at) = 'text'
                THEN CAST(round((julianday(NEW.run_at) - 2440587.5) * 86400000.0) AS INTEGER) * 1000
            ELSE CAST(round(NEW.run_at * 1000000.0) AS INTEGER)
        END,
        clock.millis * 1000,
        CASE
            WHEN NEW.payload IS NOT NULL THEN CAST(NEW.payload AS TEXT)
            WHEN NEW.args IS NULL THEN '{"args":[]}'
            WHEN json_type(CAST(NEW.args AS TEXT)) = 'array' THEN '{"args":' || CAST(NEW.args AS TEXT) || '}'
            ELSE '{"args":[],"kwargs":' || CAST(NEW.args AS TEXT) || '}'
        END,
        NEW.task,
        CASE WHEN EXISTS (SELECT 1 FROM json_each(CAST(NEW.headers AS TEXT))) THEN CAST(NEW.headers AS TEXT) END,
        NEW.tenant, NEW."key",
        coalesce(NEW.order_key, (
            SELECT NEW.tenant FROM stanchion_queues AS known WHERE known.name = NEW.queue AND known.ordered_by = 'tenant'
        )),
        CASE WHEN json_array_length(CAST(NEW.limits AS TEXT)) > 0 THEN (
            SELECT '{"hold":' || json_group_array(name) || '}'
            FROM (SELECT DISTINCT value AS name FROM json_each(CAST(NEW.limits AS TEXT)) ORDER BY value)
        ) END,
        coalesce(NEW.max_attempts, 25), NEW.timeout, NEW.expires
    FROM (
        SELECT
            CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER) AS millis,
            coalesce((SELECT max(rowid) FROM stanchion_jobs), 0) + 1 AS number
    ) AS clock
    WHERE NOT EXISTS (
        SELECT 1 FROM stanchion_jobs AS taken WHERE taken.queue = NEW.queue AND taken."key" = NEW."key"
    );
END;

INSERT INTO stanchion_meta (version, identity) VALUES (8, lower(hex(randomblob(16))));
