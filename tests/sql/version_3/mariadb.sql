CREATE TABLE stanchion_meta (
	version INTEGER NOT NULL, 
	PRIMARY KEY (version)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_jobs (
	id VARCHAR(36) NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	lane INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	priority SMALLINT NOT NULL, 
	run_at BIGINT NOT NULL, 
	enqueued_at BIGINT NOT NULL, 
	payload LONGTEXT NOT NULL, 
	task VARCHAR(200), 
	headers LONGTEXT, 
	tenant VARCHAR(200), 
	`key` VARCHAR(200), 
	order_key VARCHAR(200), 
	limits LONGTEXT, 
	flow VARCHAR(200), 
	origin VARCHAR(36), 
	attempts INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT(53), 
	errors LONGTEXT, 
	progress FLOAT(53), 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	lease_until BIGINT, 
	started_at BIGINT, 
	cancel_requested BOOL NOT NULL, 
	held INTEGER NOT NULL DEFAULT '0', 
	permit VARCHAR(64), 
	waits_for VARCHAR(420), 
	waits_since BIGINT, 
	PRIMARY KEY (id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE UNIQUE INDEX stanchion_jobs_key ON stanchion_jobs (`key`, queue);
CREATE INDEX stanchion_jobs_flow ON stanchion_jobs (flow);
CREATE INDEX stanchion_jobs_line ON stanchion_jobs (queue, state, lane, priority, run_at);
CREATE INDEX stanchion_jobs_gate ON stanchion_jobs (waits_for, waits_since);
CREATE INDEX stanchion_jobs_order ON stanchion_jobs (order_key, queue, enqueued_at);
CREATE INDEX stanchion_jobs_holder ON stanchion_jobs (worker, lease_until);
CREATE TABLE stanchion_history (
	id VARCHAR(36) NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	lane INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	priority SMALLINT NOT NULL, 
	run_at BIGINT NOT NULL, 
	enqueued_at BIGINT NOT NULL, 
	payload LONGTEXT NOT NULL, 
	task VARCHAR(200), 
	headers LONGTEXT, 
	tenant VARCHAR(200), 
	`key` VARCHAR(200), 
	order_key VARCHAR(200), 
	limits LONGTEXT, 
	flow VARCHAR(200), 
	origin VARCHAR(36), 
	attempts INTEGER NOT NULL, 
	failures INTEGER NOT NULL, 
	max_attempts INTEGER NOT NULL, 
	timeout FLOAT(53), 
	errors LONGTEXT, 
	progress FLOAT(53), 
	token VARCHAR(64), 
	worker VARCHAR(200), 
	started_at BIGINT, 
	finished_at BIGINT NOT NULL, 
	result LONGTEXT, 
	PRIMARY KEY (id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE INDEX stanchion_history_ended ON stanchion_history (queue, finished_at);
CREATE INDEX stanchion_history_flow ON stanchion_history (flow);
CREATE INDEX stanchion_history_page ON stanchion_history (queue, id);
CREATE TABLE stanchion_queues (
	name VARCHAR(200) NOT NULL, 
	paused BOOL NOT NULL, 
	max_rate FLOAT(53), 
	max_running INTEGER, 
	lanes INTEGER NOT NULL, 
	lanes_per_tenant INTEGER NOT NULL, 
	history_ttl FLOAT(53) NOT NULL, 
	dead_letter VARCHAR(200), 
	lease FLOAT(53) NOT NULL, 
	laned BOOL NOT NULL DEFAULT false, 
	last_lane INTEGER NOT NULL DEFAULT '0', 
	rate_tokens FLOAT(53) NOT NULL, 
	rate_at BIGINT NOT NULL, 
	PRIMARY KEY (name)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_tallies (
	id BIGINT NOT NULL AUTO_INCREMENT, 
	queue VARCHAR(200) NOT NULL, 
	what VARCHAR(20) NOT NULL, 
	n BIGINT NOT NULL, 
	PRIMARY KEY (id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_counts (
	queue VARCHAR(200) NOT NULL, 
	what VARCHAR(20) NOT NULL, 
	n BIGINT NOT NULL, 
	PRIMARY KEY (queue, what)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_workers (
	id VARCHAR(200) NOT NULL, 
	host VARCHAR(200) NOT NULL, 
	pid INTEGER NOT NULL, 
	queues LONGTEXT NOT NULL, 
	threads INTEGER NOT NULL, 
	heartbeat FLOAT(53) NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	started_at BIGINT NOT NULL, 
	last_seen_at BIGINT NOT NULL, 
	PRIMARY KEY (id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_gates (
	name VARCHAR(420) NOT NULL, 
	capacity INTEGER, 
	used INTEGER NOT NULL, 
	waited BOOL NOT NULL DEFAULT false, 
	tokens FLOAT(53), 
	filled_at BIGINT, 
	promised BIGINT, 
	PRIMARY KEY (name)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_nodes (
	id VARCHAR(36) NOT NULL, 
	root VARCHAR(36) NOT NULL, 
	kind VARCHAR(10) NOT NULL, 
	parent VARCHAR(60), 
	size INTEGER NOT NULL, 
	closed BOOL NOT NULL, 
	ended INTEGER NOT NULL, 
	state VARCHAR(10) NOT NULL, 
	created_at BIGINT NOT NULL, 
	finished_at BIGINT, 
	handler LONGTEXT, 
	definition LONGTEXT, 
	PRIMARY KEY (id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE INDEX stanchion_nodes_root ON stanchion_nodes (root);
CREATE INDEX stanchion_nodes_finished ON stanchion_nodes (finished_at);
CREATE TABLE stanchion_ends (
	node VARCHAR(36) NOT NULL, 
	place INTEGER NOT NULL, 
	job VARCHAR(36), 
	child VARCHAR(36), 
	state VARCHAR(10) NOT NULL, 
	result LONGTEXT, 
	PRIMARY KEY (node, place)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_notes (
	kind VARCHAR(40) NOT NULL, 
	name VARCHAR(200) NOT NULL, 
	version BIGINT NOT NULL, 
	text LONGTEXT NOT NULL, 
	PRIMARY KEY (kind, name)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
CREATE TABLE stanchion_stage (
	`write` VARCHAR(200) NOT NULL, 
	attempt VARCHAR(64) NOT NULL, 
	id VARCHAR(36) NOT NULL, 
	staged_at BIGINT NOT NULL, 
	queue VARCHAR(200) NOT NULL, 
	payload LONGTEXT NOT NULL, 
	task VARCHAR(200), 
	priority SMALLINT NOT NULL DEFAULT '0', 
	run_at BIGINT, 
	delay BIGINT NOT NULL DEFAULT '0', 
	headers LONGTEXT, 
	tenant VARCHAR(200), 
	`key` VARCHAR(200), 
	on_duplicate VARCHAR(10) NOT NULL DEFAULT 'return', 
	order_key VARCHAR(200), 
	limits LONGTEXT, 
	flow VARCHAR(200), 
	origin VARCHAR(36), 
	max_attempts INTEGER NOT NULL DEFAULT '25', 
	timeout FLOAT(53), 
	lane INTEGER NOT NULL DEFAULT '0', 
	waits_for VARCHAR(420), 
	PRIMARY KEY (`write`, attempt, id)
)ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 /*M! COLLATE utf8mb4_nopad_bin */ /*!80017 COLLATE utf8mb4_0900_bin */;
INSERT INTO stanchion_meta (version) VALUES (3);
