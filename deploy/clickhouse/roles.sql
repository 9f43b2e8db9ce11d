-- Who may do what with the ledger in database waybill. Made by: waybill ledger roles --print-sql
-- Run it as a user with access management, with each password in place of {…}:
--   clickhouse-client --multiquery < roles.sql
-- It can be run again: it adds what is missing.
-- Not in it, and left to you: give the user "default" a password, or take it away.

-- migrator: makes and changes the schema: waybill ledger migrate
CREATE SETTINGS PROFILE OR REPLACE waybill_migrator SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST;
CREATE USER IF NOT EXISTS migrator IDENTIFIED WITH sha256_password BY '{migrator password}' SETTINGS PROFILE 'waybill_migrator';
ALTER USER migrator SETTINGS PROFILE 'waybill_migrator';
GRANT CREATE DATABASE, CREATE TABLE, CREATE VIEW, SELECT ON waybill.* TO migrator;
GRANT INSERT ON waybill.schema_versions TO migrator;
GRANT TABLE ENGINE ON MergeTree TO migrator;
GRANT ALTER ADD COLUMN, ALTER COMMENT COLUMN, ALTER MODIFY COMMENT, ALTER ADD INDEX ON waybill.* TO migrator;
GRANT INSERT, DROP TABLE ON waybill._tmp_replace_* TO migrator;
GRANT INSERT, DROP VIEW ON waybill.events TO migrator;
GRANT INSERT, DROP VIEW ON waybill.attempts TO migrator;
GRANT INSERT, DROP VIEW ON waybill.deliveries TO migrator;
GRANT INSERT, DROP VIEW ON waybill.escalations TO migrator;
GRANT INSERT, DROP VIEW ON waybill.dead_letters TO migrator;
GRANT INSERT, DROP VIEW ON waybill.replays TO migrator;
GRANT INSERT, DROP VIEW ON waybill.endpoint_history TO migrator;
GRANT INSERT, DROP VIEW ON waybill.completeness TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_attempts TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_duplicates TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_failures TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_integrity TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_controls TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_changes TO migrator;
GRANT INSERT, DROP VIEW ON waybill.audit_completeness TO migrator;

-- sink: the ledger sink: adds records, and can change, delete, detach or drop nothing
CREATE SETTINGS PROFILE OR REPLACE waybill_sink SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST;
CREATE USER IF NOT EXISTS sink IDENTIFIED WITH sha256_password BY '{sink password}' SETTINGS PROFILE 'waybill_sink';
ALTER USER sink SETTINGS PROFILE 'waybill_sink';
GRANT SELECT ON waybill.* TO sink;
GRANT INSERT ON waybill.records TO sink;
GRANT INSERT ON waybill.tiles TO sink;
GRANT INSERT ON waybill.checkpoints TO sink;
GRANT INSERT ON waybill.checkpoint_signatures TO sink;

-- analyst: people and programs that read the ledger, within limits
CREATE SETTINGS PROFILE OR REPLACE waybill_analyst SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST,
    readonly = 2 CONST,
    allow_ddl = 0 CONST,
    max_execution_time = 60 MIN 1 MAX 60,
    timeout_overflow_mode = 'throw' CONST,
    max_memory_usage = 2000000000 MIN 1 MAX 2000000000,
    max_memory_usage_for_user = 2000000000 CONST,
    max_untracked_memory = 4194304 CONST,
    max_concurrent_queries_for_user = 20 CONST,
    max_temporary_data_on_disk_size_for_user = 10000000000 CONST,
    result_overflow_mode = 'throw' CONST,
    max_result_rows = 1000000 MIN 1 MAX 1000000,
    max_result_bytes = 1000000000 MIN 1 MAX 1000000000;
CREATE USER IF NOT EXISTS analyst IDENTIFIED WITH sha256_password BY '{analyst password}' SETTINGS PROFILE 'waybill_analyst';
ALTER USER analyst SETTINGS PROFILE 'waybill_analyst';
GRANT SELECT ON waybill.* TO analyst;
GRANT SELECT ON information_schema.* TO analyst;
GRANT SELECT ON INFORMATION_SCHEMA.* TO analyst;

-- auditor: reads the ledger, and what ClickHouse knows about who did what
CREATE SETTINGS PROFILE OR REPLACE waybill_auditor SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST,
    readonly = 2 CONST,
    allow_ddl = 0 CONST,
    max_execution_time = 7200 MIN 1 MAX 7200,
    timeout_overflow_mode = 'throw' CONST,
    max_memory_usage = 8000000000 MIN 1 MAX 8000000000,
    max_memory_usage_for_user = 8000000000 CONST,
    max_untracked_memory = 4194304 CONST,
    max_concurrent_queries_for_user = 20 CONST,
    max_temporary_data_on_disk_size_for_user = 10000000000 CONST,
    result_overflow_mode = 'throw' CONST;
CREATE USER IF NOT EXISTS auditor IDENTIFIED WITH sha256_password BY '{auditor password}' SETTINGS PROFILE 'waybill_auditor';
ALTER USER auditor SETTINGS PROFILE 'waybill_auditor';
GRANT SELECT ON waybill.* TO auditor;
GRANT SELECT ON information_schema.* TO auditor;
GRANT SELECT ON INFORMATION_SCHEMA.* TO auditor;
GRANT SHOW ACCESS ON *.* TO auditor;
GRANT SELECT ON system.query_log TO auditor;
GRANT SELECT ON system.session_log TO auditor;
GRANT SELECT ON system.part_log TO auditor;
GRANT SELECT ON system.mutations TO auditor;
GRANT SELECT ON system.parts TO auditor;
GRANT SELECT ON system.detached_parts TO auditor;
GRANT SELECT ON system.tables TO auditor;
GRANT SELECT ON system.columns TO auditor;
GRANT SELECT ON system.databases TO auditor;
GRANT SELECT ON system.users TO auditor;
GRANT SELECT ON system.roles TO auditor;
GRANT SELECT ON system.grants TO auditor;
GRANT SELECT ON system.role_grants TO auditor;
GRANT SELECT ON system.row_policies TO auditor;
GRANT SELECT ON system.settings_profiles TO auditor;
GRANT SELECT ON system.settings_profile_elements TO auditor;
GRANT SELECT ON system.quotas TO auditor;
GRANT SELECT ON system.processes TO auditor;
GRANT SELECT ON system.settings TO auditor;
GRANT SELECT ON system.server_settings TO auditor;
GRANT SELECT ON system.merge_tree_settings TO auditor;
GRANT SELECT ON system.backups TO auditor;
GRANT SELECT ON system.disks TO auditor;
GRANT SELECT ON system.errors TO auditor;

-- custodian: drops months whose retention is over: waybill ledger retire
CREATE SETTINGS PROFILE OR REPLACE waybill_custodian SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST,
    enable_lightweight_delete = 0 CONST;
CREATE USER IF NOT EXISTS custodian IDENTIFIED WITH sha256_password BY '{custodian password}' SETTINGS PROFILE 'waybill_custodian';
ALTER USER custodian SETTINGS PROFILE 'waybill_custodian';
GRANT SELECT ON waybill.* TO custodian;
GRANT ALTER DELETE ON waybill.records TO custodian;

-- backup: copies the ledger away: waybill ledger backup
CREATE SETTINGS PROFILE OR REPLACE waybill_backup SETTINGS
    log_queries = 1 CONST,
    log_queries_probability = 1 CONST,
    log_queries_min_type = 'QUERY_START' CONST,
    log_queries_min_query_duration_ms = 0 CONST,
    log_queries_cut_to_length = 100000 CONST,
    allow_introspection_functions = 0 CONST;
CREATE USER IF NOT EXISTS backup IDENTIFIED WITH sha256_password BY '{backup password}' SETTINGS PROFILE 'waybill_backup';
ALTER USER backup SETTINGS PROFILE 'waybill_backup';
GRANT BACKUP, SELECT ON waybill.* TO backup;
