CREATE TABLE stanchion_meta (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
);
CREATE TABLE stanchion_jobs (
	id UUID NOT NULL, 
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
	key VARCHAR(200), 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow VARCHAR(200), 
	origin UUID, 
	attempts INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT(53), 
	errors TEXT, 
	progress FLOAT(53), 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	lease_until BIGINT, 
	started_at BIGINT, 
	cancel_requested BOOLEAN NOT NULL, 
	held INTEGER DEFAULT '0' NOT NULL, 
	permit VARCHAR(64), 
	waits_for VARCHAR(420), 
	waits_since BIGINT, 
	PRIMARY KEY (id)
);
CREATE INDEX stanchion_jobs_lease ON stanchion_jobs (lease_until) WHERE lease_until IS NOT NULL;
CREATE INDEX stanchion_jobs_gate ON stanchion_jobs (waits_for, waits_since, id) WHERE waits_for IS NOT NULL;
CREATE INDEX stanchion_jobs_running ON stanchion_jobs (queue, worker) WHERE state = 'running';
CREATE INDEX stanchion_jobs_order ON stanchion_jobs (queue, order_key, enqueued_at, id) WHERE order_key IS NOT NULL;
CREATE INDEX stanchion_jobs_flow ON stanchion_jobs ((flow COLLATE "C")) WHERE flow IS NOT NULL;
CREATE UNIQUE INDEX stanchion_jobs_key ON stanchion_jobs (queue, key) WHERE key IS NOT NULL;
CREATE INDEX stanchion_jobs_line ON stanchion_jobs (queue, lane, priority, run_at, id) WHERE state = 'queued';
CREATE TABLE stanchion_history (
	id UUID NOT NULL, 
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
	key VARCHAR(200), 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow VARCHAR(200), 
	origin UUID, 
	attempts INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT(53), 
	errors TEXT, 
	progress FLOAT(53), 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	started_at BIGINT, 
	finished_at BIGINT NOT NULL, 
	result TEXT, 
	PRIMARY KEY (id)
);
CREATE INDEX stanchion_history_ended ON stanchion_history (queue, finished_at);
CREATE INDEX stanchion_history_page ON stanchion_history (queue, id);
CREATE INDEX stanchion_history_flow ON stanchion_history ((flow COLLATE "C")) WHERE flow IS NOT NULL;
CREATE TABLE stanchion_queues (
	name VARCHAR(200) NOT NULL, 
	paused BOOLEAN NOT NULL, 
	max_rate FLOAT(53), 
	max_running INTEGER, 
	lanes INTEGER NOT NULL, 
	lanes_per_tenant INTEGER NOT NULL, 
	history_ttl FLOAT(53) NOT NULL, 
	dead_letter VARCHAR(200), 
	lease FLOAT(53) NOT NULL, 
	laned BOOLEAN DEFAULT false NOT NULL, 
	last_lane INTEGER DEFAULT '0' NOT NULL, 
	rate_tokens FLOAT(53) NOT NULL, 
	rate_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
CREATE TABLE stanchion_tallies (
	id BIGSERIAL NOT NULL, 
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
	heartbeat FLOAT(53) NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	started_at BIGINT NOT NULL, 
	last_seen_at BIGINT NOT NULL, 
	PRIMARY KEY (id)
);
CREATE TABLE stanchion_gates (
	name VARCHAR(420) NOT NULL, 
	capacity INTEGER, 
	used INTEGER NOT NULL, 
	waited BOOLEAN DEFAULT false NOT NULL, 
	tokens FLOAT(53), 
	filled_at BIGINT, 
	promised BIGINT, 
	PRIMARY KEY (name)
)
 WITH (fillfactor = 50);
CREATE TABLE stanchion_nodes (
	id UUID NOT NULL, 
	root UUID NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	parent VARCHAR(60), 
	size INTEGER NOT NULL, 
	closed BOOLEAN NOT NULL, 
	ended INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	created_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	handler TEXT, 
	definition TEXT, 
	PRIMARY KEY (id)
);
CREATE INDEX stanchion_nodes_root ON stanchion_nodes (root);
CREATE INDEX stanchion_nodes_finished ON stanchion_nodes (finished_at);
CREATE TABLE stanchion_ends (
	node UUID NOT NULL, 
	place INTEGER NOT NULL, 
	job UUID, 
	child UUID, 
	state VARCHAR(10) NOT NULL, 
	result TEXT, 
	PRIMARY KEY (node, place)
);
CREATE TABLE stanchion_notes (
	kind VARCHAR(40) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version BIGINT NOT NULL, 
	text TEXT NOT NULL, 
	PRIMARY KEY (kind, name)
);
CREATE TABLE stanchion_stage (
	write VARCHAR(200) NOT NULL, 
	attempt VARCHAR(64) NOT NULL, 
	id UUID NOT NULL, 
	staged_at BIGINT NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	payload TEXT NOT NULL, 
	task VARCHAR(200), 
	priority SMALLINT DEFAULT '0' NOT NULL, 
	run_at BIGINT, 
	delay BIGINT DEFAULT '0' NOT NULL, 
	headers TEXT, 
	tenant VARCHAR(200), 
	key VARCHAR(200), 
	on_duplicate VARCHAR(10) DEFAULT 'return' NOT NULL, 
	order_key VARCHAR(200), 
	limits TEXT, 
	flow VARCHAR(200), 
	origin UUID, 
	max_attempts INTEGER DEFAULT '25' NOT NULL, 
	timeout FLOAT(53), 
	lane INTEGER DEFAULT '0' NOT NULL, 
	waits_for VARCHAR(420), 
	PRIMARY KEY (write, attempt, id)
);
ALTER TABLE stanchion_stage SET UNLOGGED;
INSERT INTO stanchion_meta (version) VALUES (3);
