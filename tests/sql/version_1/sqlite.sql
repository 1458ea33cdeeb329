CREATE TABLE stanchion_meta (
	version INTEGER NOT NULL,
	PRIMARY KEY (version)
);
CREATE TABLE stanchion_jobs (
	id VARCHAR(36) NOT NULL,
	queue VARCHAR(200) NOT NULL,
	lane INTEGER NOT NULL,
	state VARCHAR(10) NOT NULL,
	priority SMALLINT NOT NULL,
	run_at BIGINT NOT NULL,
	enqueued_at BIGINT NOT NULL,
	payload TEXT NOT NULL,
	task VARCHAR(200),
	headers TEXT,
	tenant VARCHAR(200),
	"key" VARCHAR(200),
	order_key VARCHAR(200),
	limits TEXT,
	flow VARCHAR(200),
	origin VARCHAR(36),
	attempts INTEGER NOT NULL,
	failures INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	timeout FLOAT,
	errors TEXT,
	progress FLOAT,
	token VARCHAR(64),
	worker VARCHAR(200),
	lease_until BIGINT,
	started_at BIGINT,
	cancel_requested BOOLEAN NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX stanchion_jobs_line ON stanchion_jobs (queue, lane, priority, run_at, id) WHERE state = 'queued';
CREATE INDEX stanchion_jobs_lease ON stanchion_jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX stanchion_jobs_running ON stanchion_jobs (queue, worker) WHERE state = 'running';
CREATE UNIQUE INDEX stanchion_jobs_key ON stanchion_jobs (queue, "key") WHERE "key" IS NOT NULL;
CREATE TABLE stanchion_history (
	id VARCHAR(36) NOT NULL,
	queue VARCHAR(200) NOT NULL,
	lane INTEGER NOT NULL,
	state VARCHAR(10) NOT NULL,
	priority SMALLINT NOT NULL,
	run_at BIGINT NOT NULL,
	enqueued_at BIGINT NOT NULL,
	payload TEXT NOT NULL,
	task VARCHAR(200),
	headers TEXT,
	tenant VARCHAR(200),
	"key" VARCHAR(200),
	order_key VARCHAR(200),
	limits TEXT,
	flow VARCHAR(200),
	origin VARCHAR(36),
	attempts INTEGER NOT NULL,
	failures INTEGER NOT NULL,
	max_attempts INTEGER NOT NULL,
	timeout FLOAT,
	errors TEXT,
	progress FLOAT,
	token VARCHAR(64),
	worker VARCHAR(200),
	started_at BIGINT,
	finished_at BIGINT NOT NULL,
	result TEXT,
	PRIMARY KEY (id)
);
CREATE INDEX stanchion_history_ended ON stanchion_history (queue, finished_at);
CREATE INDEX stanchion_history_page ON stanchion_history (queue, id);
CREATE TABLE stanchion_queues (
	name VARCHAR(200) NOT NULL,
	paused BOOLEAN NOT NULL,
	max_rate FLOAT,
	max_running INTEGER,
	lanes INTEGER NOT NULL,
	lanes_per_tenant INTEGER NOT NULL,
	history_ttl FLOAT NOT NULL,
	dead_letter VARCHAR(200),
	lease FLOAT NOT NULL,
	rate_tokens FLOAT NOT NULL,
	rate_at BIGINT NOT NULL,
	PRIMARY KEY (name)
);
CREATE TABLE stanchion_tallies (
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
	PRIMARY KEY (id)
);
INSERT INTO stanchion_meta (version) VALUES (1);
